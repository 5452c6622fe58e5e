"""Device and dtype: what there is, what is chosen, and whether a model fits into its memory."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import torch

from playground.models.errors import ModelError, in_words

DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
# On top of the weights: activations, keys and values of a first prompt, allocator slack.
HEADROOM = 1.1
CGROUP = Path("/sys/fs/cgroup")


def devices() -> tuple[str, ...]:
    """Return the kinds of device at hand, best first: cuda > mps > cpu."""
    found = []
    if torch.cuda.is_available():
        found.append("cuda")
    if torch.backends.mps.is_available():
        found.append("mps")
    return (*found, "cpu")


def choose_device(device: str = "auto") -> str:
    """Return the device to use: "auto" is the best one at hand, others are checked."""
    found = devices()
    if device == "auto":
        return found[0]
    kind, _, number = device.partition(":")
    if kind not in found:
        raise ModelError(f"device {device} isn't at hand (found: {', '.join(found)})")
    if number and not (
        kind == "cuda" and number.isdigit() and int(number) < torch.cuda.device_count()
    ):
        raise ModelError(f"device {device} isn't at hand ({kind} has no number {number})")
    return device


def choose_dtype(dtype: str, device: str) -> str:
    """Return the dtype's name: "auto" is bfloat16 on CUDA (else float16), float32 elsewhere."""
    if dtype == "auto":
        if not device.startswith("cuda"):
            return "float32"
        return "bfloat16" if torch.cuda.is_bf16_supported(False) else "float16"
    if dtype not in DTYPES:
        raise ModelError(f"dtype must be one of auto, {', '.join(DTYPES)}, got {dtype}")
    return dtype


def free_memory(device: str) -> int:
    """Return the bytes that are free for a model on a device (a container's limit counts)."""
    if device.startswith("cuda"):
        return torch.cuda.mem_get_info(torch.device(device))[0]
    free = psutil.virtual_memory().available
    with suppress(OSError, ValueError):
        limit = int((CGROUP / "memory.max").read_text())
        used = int((CGROUP / "memory.current").read_text())
        # Cached file pages count as used there, but go when they are wanted.
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        free = min(free, limit - used + int(stat.get("inactive_file", 0)))
    return max(free, 0)


def check_memory(parameters: int, dtype: str, device: str, name: str) -> None:
    """Raise ModelError when that many parameters don't fit; the message has both figures."""
    needed = int(parameters * DTYPES[dtype] * HEADROOM)
    free = free_memory(device)
    if needed > free:
        raise ModelError(
            f"{name} is too big for the memory at hand: it needs about {in_words(needed)} as "
            f"{dtype} on {device}, and {in_words(free)} are free"
        )
