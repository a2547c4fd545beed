"""Processor time of another process, in nanoseconds: Linux counts it for each thread."""

from pathlib import Path


def processor_s(pid: int) -> float:
    """Return the processor time of a process's living threads; fails where there is no /proc."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return (
        sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    )
