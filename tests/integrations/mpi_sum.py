"""A program for Open MPI: every rank adds the ranks of all, and says so in a file ``RANK-SIZE-SUM`` of a folder.

It calls the library itself, so that neither a compiler nor a package is needed.
"""

import ctypes
import sys
from pathlib import Path


def main(folder: str) -> None:
    """Add, and say it."""
    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    world, integer, plus = (
        ctypes.byref(ctypes.c_char.in_dll(mpi, f"ompi_mpi_{name}"))
        for name in ("comm_world", "int", "op_sum")
    )
    rank, size, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    mpi.MPI_Init(None, None)
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))
    mpi.MPI_Comm_size(world, ctypes.byref(size))
    mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(total), 1, integer, plus, world)
    Path(folder, f"{rank.value}-{size.value}-{total.value}").touch()
    mpi.MPI_Finalize()


if __name__ == "__main__":
    main(sys.argv[1])
