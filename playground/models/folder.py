"""A model's folder, looked at before anything is loaded: config, weights, sizes.

Everything here reads JSON and safetensors headers only, so a refusal takes milliseconds, never
asks a question and changes nothing.
"""

from __future__ import annotations

import json
import struct
from math import prod
from pathlib import Path
from typing import Any

from playground.models.errors import ModelError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model", "vocab.txt")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """Return config.json of a folder as a dict."""
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(f"{name} has no config.json: not a model in the transformers layout")
    return _read_json(path, name)


def check_config(config: dict[str, Any], name: str) -> None:
    """Raise ModelError unless transformers has a causal language model of its own for the config.

    Refused, in this order: a model that needs code of its own (which would run on this machine),
    an unknown type, an encoder-decoder, an encoder, a model without its language head.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL,
    )
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED,
    )

    kind = config.get("model_type")
    found = list(config.get("architectures") or [])
    shown = ", ".join(found) or kind or "no model_type"
    if kind not in CONFIG_MAPPING_NAMES:
        if config.get("auto_map"):
            raise ModelError(
                f"{name} needs code of its own ({shown}), which would run on this machine: "
                "refused; choose a model that transformers knows by itself"
            )
        raise ModelError(f"{name} is of a type that transformers doesn't know (found: {shown})")
    causal = CAUSAL.get(kind, ())
    classes = {causal} if isinstance(causal, str) else set(causal)
    # BERT's kin read both ways unless the config says decoder.
    both_ways = kind in MASKED and not config.get("is_decoder")
    if config.get("is_encoder_decoder") or both_ways or not classes.intersection(found or classes):
        raise ModelError(f"{name} is not a causal language model (found: {shown})")


def check_tokenizer(folder: Path, name: str) -> None:
    """Raise ModelError where a folder has no tokenizer or one that needs code of its own."""
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

    path = folder / "tokenizer_config.json"
    said = _read_json(path, name) if path.is_file() else {}
    known = {n for n in TOKENIZER_MAPPING_NAMES.values() if n}
    kind = str(said.get("tokenizer_class") or "")
    native = {kind, kind.removesuffix("Fast"), f"{kind}Fast"} & known
    if "AutoTokenizer" in (said.get("auto_map") or {}) and not native:
        raise ModelError(
            f"the tokenizer of {name} needs code of its own, which would run on this machine: "
            "refused"
        )
    if not any((folder / f).is_file() for f in TOKENIZER_FILES):
        raise ModelError(f"{name} has no tokenizer (looked for {', '.join(TOKENIZER_FILES)})")


def weight_files(folder: Path, name: str) -> list[Path]:
    """Return the safetensors files of a folder, in order; all of them are there.

    Raises ModelError for pickled weights (loading those runs whatever code they contain), none at
    all, or a missing part.
    """
    single, index = folder / WEIGHTS, folder / INDEX
    if single.is_file():
        return [single]
    if index.is_file():
        parts = sorted(set(_read_json(index, name).get("weight_map", {}).values()))
        lost = [part for part in parts if not _inside(folder, part)]
        if lost or not parts:
            raise ModelError(
                f"{name} is incomplete: {len(lost)} of its {len(parts)} weight files are missing "
                f"({', '.join(lost[:3]) or 'the index is empty'})"
            )
        return [folder / part for part in parts]
    refuse_pickles([p.name for pattern in PICKLES for p in folder.glob(pattern)], name)
    raise ModelError(f"{name} has no weights ({WEIGHTS} or {INDEX})")


def refuse_pickles(names: list[str], name: str) -> None:
    """Raise ModelError when ``names`` (the weight files that aren't safetensors) has any."""
    if names:
        raise ModelError(
            f"{name} has its weights as {sorted(names)[0]} only: such files can run code when they "
            "are opened, so only safetensors are loaded"
        )


def count_parameters(files: list[Path], name: str) -> int:
    """Return the number of elements in safetensors files, from their headers.

    Raises ModelError when a header can't be read or a file is shorter than its header says.
    """
    total = 0
    for path in files:
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                if length > size - 8:
                    raise ValueError("cut inside the header")
                header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            end = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
            if size != 8 + length + end:
                raise ValueError("size and header differ")
            total += sum(prod(tensor["shape"]) for tensor in header.values())
        except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(
                f"{name} is damaged: {path.name} isn't whole; bring it again"
            ) from error
    return total


def _inside(folder: Path, part: str) -> bool:
    return Path(part).name == part and (folder / part).is_file()


def _read_json(path: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ModelError(f"{name} is damaged: {path.name} isn't JSON") from error
    if not isinstance(found, dict):
        raise ModelError(f"{name} is damaged: {path.name} isn't a JSON object")
    return found
