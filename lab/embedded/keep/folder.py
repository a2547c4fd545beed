"""A folder in which one state of the embedded AWS is kept: written as a whole or not at all.

``kept.json`` names the state and says which version wrote it; the state is a pickle, and what is large in it (code,
layers, objects) lies beside it by the hash of its content, so that a second keeping writes only what is new. Everything
else is written before ``kept.json`` is replaced, in one step, and what that no longer names is deleted after it.

A pickle is code: whoever can write to the folder decides what the next start executes. So it is made for its owner
alone, and a folder that somebody else owns is refused.
"""

import hashlib
import json
import os
import pickle
import sys
from collections.abc import Mapping
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from lab.embedded.settings import HOST

INDEX: Final = "kept.json"
STATE: Final = "state-{}.pickle"
BLOBS: Final = "blobs"
LARGE_BYTES: Final = 64 * 1024
_EMULATOR: Final = Path(__file__).resolve().parents[1]
_PACKAGES: Final = ("ministack", "moto")  # their objects are in the state


class KeptStateError(Exception):
    """A folder cannot be gone on with, or not be kept in; the text says why and what to do."""


class KeepFolder:
    """A folder for one kept state.

    Parameters
    ----------
    path
        Where it is, or will be.
    known
        Objects by name that the state refers to and that every start makes anew, such as the clock.
    """

    def __init__(self, path: Path, known: Mapping[str, object]) -> None:
        self._path = path
        self._known = known
        self._names = {id(value): name for name, value in known.items()}

    def load(self, port: int) -> Any:
        """Return the state that is kept here, with the URLs in it at ``port``.

        Raises
        ------
        KeptStateError
            When there is none that this version can read, or its URLs cannot have that port.
        """
        index = read_index(self._path)
        if index is None:
            raise KeptStateError(f"nothing is kept in {self._path}")
        try:
            content = _at_port(
                (self._path / index["state"]).read_bytes(), index["port"], port
            )
            return _Unpickler(BytesIO(content), self._path, self._known).load()
        except FileNotFoundError as error:
            raise KeptStateError(
                f"{self._path} is not whole, {error.filename} is missing: delete it"
            ) from error

    def save(self, state: object, *, port: int, now_us: int) -> None:
        """Keep a state instead of what was kept before.

        Parameters
        ----------
        state
            Anything that can be pickled.
        port
            Of the AWS endpoint; the URLs of queues in the state have it.
        now_us
            The emulated time, in microseconds since 1970.

        Raises
        ------
        KeptStateError
            When the folder belongs to somebody else.
        """
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_owner(self._path)
        (self._path / BLOBS).mkdir(mode=0o700, exist_ok=True)
        content = BytesIO()
        pickler = _Pickler(content, self._path, self._names)
        pickler.dump(state)
        name = STATE.format(hashlib.sha256(content.getvalue()).hexdigest()[:16])
        _write(self._path / name, content.getvalue())
        _sync(self._path)
        index = {
            "version": emulator_version(),
            "state": name,
            "port": port,
            "now_us": now_us,
        }
        _write(self._path / INDEX, json.dumps(index).encode())
        _sync(self._path)
        self._delete_all_but(name, pickler.blobs)

    def _delete_all_but(self, state: str, blobs: set[str]) -> None:
        outdated = [
            path for path in self._path.glob(STATE.format("*")) if path.name != state
        ]
        outdated += [
            path for path in (self._path / BLOBS).iterdir() if path.name not in blobs
        ]
        for path in outdated:
            path.unlink()


def read_index(path: Path, user_id: int | None = None) -> Mapping[str, Any] | None:
    """Return what is kept in a folder, None when nothing is; ``user_id`` is who asks, this user without it.

    Raises
    ------
    KeptStateError
        When it was kept by another version, or is not this user's.
    """
    if not (path / INDEX).is_file():
        if path.is_dir() and any(path.iterdir()) and not (path / BLOBS).is_dir():
            raise KeptStateError(
                f"{path} holds something else: give an empty folder, or one that does not exist"
            )
        return None
    _require_owner(path, user_id)
    index: Mapping[str, Any] = json.loads((path / INDEX).read_text())
    if index["version"] != emulator_version():
        raise KeptStateError(
            f"{path} was kept by another version of the embedded AWS, Python or its packages, and only that version can"
            " go on with it: go back to it, or give another folder"
        )
    return index


def emulator_version() -> str:
    """Return the hash of everything that decides what a kept state means."""
    found = hashlib.sha256(
        repr((sys.version_info[:2], [version(name) for name in _PACKAGES])).encode()
    )
    for path in sorted(_EMULATOR.rglob("*.py")):
        found.update(f"\0{path.relative_to(_EMULATOR)}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


class _Pickler(pickle.Pickler):
    """Leaves out what every start makes anew, and puts what is large beside the state."""

    def __init__(self, file: BytesIO, folder: Path, names: Mapping[int, str]) -> None:
        super().__init__(file, protocol=5)
        self.blobs: set[str] = set()
        self._folder = folder
        self._names = names

    def persistent_id(self, obj: Any) -> Any:
        if id(obj) in self._names:
            return ("known", self._names[id(obj)])
        if type(obj) is not bytes or len(obj) < LARGE_BYTES:
            return None
        name = hashlib.sha256(obj).hexdigest()
        if name not in self.blobs and not (self._folder / BLOBS / name).exists():
            _write(self._folder / BLOBS / name, obj)
        self.blobs.add(name)
        return ("blob", name)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BytesIO, folder: Path, known: Mapping[str, object]) -> None:
        super().__init__(file)
        self._folder = folder
        self._known = known
        self._blobs: dict[str, bytes] = {}

    def persistent_load(self, pid: Any) -> Any:
        kind, name = pid
        if kind == "known":
            return self._known[name]
        if name not in self._blobs:
            self._blobs[name] = (self._folder / BLOBS / name).read_bytes()
        return self._blobs[name]


def _at_port(content: bytes, kept: int, port: int) -> bytes:
    """Return a pickled state whose URLs have another port; a pickle counts the bytes of its strings."""
    if port == kept:
        return content
    if len(str(port)) != len(str(kept)):
        raise KeptStateError(
            f"the URLs in what is kept have port {kept}: another has to have as many digits, not {port}"
        )
    return content.replace(f"{HOST}:{kept}".encode(), f"{HOST}:{port}".encode())


def _write(path: Path, content: bytes) -> None:
    """Write a file so that it has its whole content, or is as it was before."""
    unfinished = path.with_suffix(f"{path.suffix}.unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _sync(folder: Path) -> None:
    """Make the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _require_owner(path: Path, user_id: int | None = None) -> None:
    if path.stat().st_uid != (os.getuid() if user_id is None else user_id):
        raise KeptStateError(
            f"{path} belongs to somebody else, who could let you execute anything"
        )
