"""The cache folder: where brought models lie, one lock per model, temporary folders inside it.

Whatever is being made is made in a temporary folder and renamed when it is whole, so what has a
final name is complete. Several processes may start at once: who holds the lock works, the others
wait and find it done.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from playground.models.errors import ModelError, Progress, in_words

VARIABLE = "PLAYGROUND_CACHE"


def cache_folder() -> Path:
    """Return the cache folder: $PLAYGROUND_CACHE, else the platform's place for a user's caches."""
    if given := os.environ.get(VARIABLE):
        return Path(given).expanduser()
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "decoding-playground"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData/Local")) / "decoding-playground"
    return Path(os.environ.get("XDG_CACHE_HOME", home / ".cache")) / "decoding-playground"


@contextmanager
def locked(name: str, progress: Progress) -> Iterator[Path]:
    """Hold the lock ``name`` of the cache folder and yield the folder (made when missing)."""
    folder = cache_folder()
    with plain_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress(None, "another process is bringing this model: waiting for it")
            lock.acquire()
    try:
        yield folder
    finally:
        lock.release()


@contextmanager
def workplace(folder: Path, name: str) -> Iterator[Path]:
    """Yield a new temporary folder for ``name`` inside ``folder``; it goes whatever happens.

    What a killed process left behind under the same name is discarded first, so hold the lock.
    """
    for left in folder.glob(f"{name}.tmp-*"):
        shutil.rmtree(left, ignore_errors=True)
    with plain_errors(folder):
        place = Path(tempfile.mkdtemp(prefix=f"{name}.tmp-", dir=folder))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def check_room(folder: Path, needed: int) -> None:
    """Raise ModelError unless ``needed`` bytes are free on the folder's disk."""
    place = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise ModelError(
            f"not enough disk space in {folder}: {in_words(needed)} needed, {in_words(free)} free; "
            f"free some, or set {VARIABLE} to a folder on another disk"
        )


@contextmanager
def plain_errors(folder: Path) -> Iterator[None]:
    """Turn a full disk or a folder that can't be written into a ModelError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ModelError(
                f"the disk is full: {folder} ran out of space; free some, or set {VARIABLE} to a "
                "folder on another disk"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise ModelError(
                f"can't write to the cache folder {folder}; set {VARIABLE} to a folder of yours"
            ) from error
        raise


def sha256(path: Path) -> str:
    """Return the file's sha256 in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
