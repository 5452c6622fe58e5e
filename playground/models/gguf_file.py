"""GGUF files: a quick look at the header, and loading with the weights dequantised.

The header tells what a file holds (architecture, tensors) in milliseconds; the gguf package's own
reader takes seconds for the same, which is too long for a refusal. Layout: magic "GGUF", version
(u32), number of tensors and of metadata entries (u64 each), the entries (key, type, value), the
tensors' descriptions (name, dimensions, type, offset).
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from playground.models.errors import ModelError

# Metadata types by number; 8 is a string, 9 an array.
_SCALARS = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))
_STRING, _ARRAY = 8, 9
# Encoder-decoders that transformers reads from GGUF, but not as causal language models.
_NOT_CAUSAL = ("t5", "umt5", "t5encoder", "bert", "nomic-bert", "jina-bert-v2", "clip")


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says of itself: ``parameters`` counts the elements of all tensors."""

    architecture: str
    parameters: int


def read_header(path: Path) -> GgufHeader:
    """Return the header of a GGUF file (version 2 or 3, little endian), or raise ModelError."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data).header()
    except (struct.error, ValueError, KeyError, UnicodeDecodeError, OSError) as error:
        raise ModelError(f"{path.name} is damaged or not a GGUF file") from error


def check_gguf(path: Path) -> GgufHeader:
    """Return the header of a GGUF file that holds a causal language model, else raise."""
    header = read_header(path)
    if header.architecture in _NOT_CAUSAL:
        raise ModelError(
            f"{path.name} is not a causal language model (found: {header.architecture})"
        )
    return header


def load_gguf(path: Path, dtype: str, device: str) -> tuple[Any, Any]:
    """Return (model, tokenizer) of a GGUF file, weights dequantised to ``dtype``."""
    # Dequantised: else the weights stay packed, and the model can't be saved again.
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    place = dict(gguf_file=path.name, local_files_only=True, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, **place)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, quantization_config=GgufConfig(dequantize=True), dtype=dtype, **place
    )
    return model.to(device), tokenizer


class _Reader:
    """Walks through the header of mapped bytes."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def header(self) -> GgufHeader:
        if self.data[:4] != b"GGUF":
            raise ValueError("no GGUF magic")
        self.at = 4
        if self.scalar("I") not in (2, 3):
            raise ValueError("unknown GGUF version")
        tensors, entries = self.scalar("Q"), self.scalar("Q")
        architecture = ""
        for _ in range(entries):
            key = self.string()
            value = self.value(self.scalar("I"))
            if key == "general.architecture":
                architecture = value
        parameters = 0
        for _ in range(tensors):
            self.string()
            shape = [self.scalar("Q") for _ in range(self.scalar("I"))]
            parameters += prod(shape)
            self.scalar("I")
            offset = self.scalar("Q")
            if offset >= len(self.data):
                raise ValueError("the file ends before its tensors")
        return GgufHeader(architecture, parameters)

    def scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def string(self) -> str:
        length = self.scalar("Q")
        text = self.data[self.at : self.at + length]
        if len(text) < length:
            raise ValueError("the file ends inside its header")
        self.at += length
        return text.decode()

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.skip_array(self.scalar("I"), self.scalar("Q"))
        return self.scalar(_SCALARS[kind])

    def skip_array(self, kind: int, length: int) -> None:
        if kind in _SCALARS:
            self.at += struct.calcsize("<" + _SCALARS[kind]) * length
            return
        for _ in range(length):
            self.value(kind)
