"""load_model: from a name to a TransformersLM, with every refusal before the weights are read.

Steps: 1. find or bring the files; 2. refuse by config, weight format, tokenizer; 3. choose device
and dtype, and refuse what doesn't fit the memory; 4. load; 5. wrap. Nothing is kept between calls:
a model that fails leaves those that are loaded as they were.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playground.models import default
from playground.models import device as devices
from playground.models import folder as folders
from playground.models.errors import ModelError, Progress, first_line, silent
from playground.models.fingerprint import fingerprint
from playground.models.gguf_file import check_gguf, load_gguf
from playground.models.quiet import quiet_transformers

if TYPE_CHECKING:
    from playground.lm import TransformersLM

# transformers sets process-wide defaults (dtype, verbosity) while it builds a model.
_ONE_AT_A_TIME = threading.Lock()


def load_model(
    name: str = "default",
    device: str = "auto",
    dtype: str = "auto",
    progress: Progress = silent,
) -> TransformersLM:
    """Return a model, ready to use.

    ``name``: "default", a hub id such as "gpt2", a folder, or a .gguf file. ``device``: "auto",
    "cpu", "cuda", "cuda:1", "mps". ``dtype``: "auto" (bfloat16 on CUDA, float32 elsewhere),
    "float32", "bfloat16", "float16". ``progress(fraction or None, text)`` is called as it goes.

    The model's own sampling defaults are dropped; its end-of-sequence ids are kept. Code that comes
    with a model is never run. Raises ModelError (a ValueError) with a one-line message.
    """
    device = devices.choose_device(device)
    dtype = devices.choose_dtype(dtype, device)
    name = str(name).strip()
    if not name:
        raise ModelError("name must be a model's name, got nothing")
    path = Path(name).expanduser()

    def fits(parameters: int) -> None:
        devices.check_memory(parameters, dtype, device, name)

    if name == "default":
        return _load(default.bring_default(progress), default.TITLE, dtype, device, progress)
    if name.lower().endswith(".gguf"):
        return _load(path, path.stem, dtype, device, progress)
    if path.is_dir():
        return _load(path, path.resolve().name, dtype, device, progress)
    from playground.models import hub

    if not hub.is_repo_id(name):
        raise ModelError(f"no model called {name!r}: no such folder, and not a name on the hub")
    return _load(hub.bring(name, fits, progress), name, dtype, device, progress)


def _load(source: Path, name: str, dtype: str, device: str, progress: Progress) -> TransformersLM:
    is_gguf = source.suffix.lower() == ".gguf"
    mark, parameters = (_look_at_gguf if is_gguf else _look_at_folder)(source, name)
    devices.check_memory(parameters, dtype, device, name)
    progress(None, f"loading {name} as {dtype} on {device}")
    with _ONE_AT_A_TIME, _plain(name), quiet_transformers():
        load = load_gguf if is_gguf else _load_folder
        model, tokenizer = load(source, dtype, device)
        _drop_sampling_defaults(model)
        from playground.lm import TransformersLM

        lm = TransformersLM(model, tokenizer, name=name, fingerprint=mark)
    progress(1.0, f"{name} is loaded")
    return lm


def _look_at_folder(source: Path, name: str) -> tuple[str, int]:
    """Return (fingerprint, parameters) of a folder that may be loaded."""
    folders.check_config(folders.read_config(source, name), name)
    files = folders.weight_files(source, name)
    folders.check_tokenizer(source, name)
    if source == default.default_folder():
        mark = default.manifest_fingerprint(source)
    else:
        mark = fingerprint(files)
    return mark, folders.count_parameters(files, name)


def _look_at_gguf(source: Path, name: str) -> tuple[str, int]:
    """Return (fingerprint, parameters) of a .gguf file that may be loaded."""
    if not source.is_file():
        raise ModelError(f"no such file: {source}")
    header = check_gguf(source)
    return fingerprint([source]), header.parameters


def _load_folder(source: Path, dtype: str, device: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # Local files, no foreign code, no pickles: said each time, so that no default can change it.
    safe = dict(local_files_only=True, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(source, **safe)
    model, found = AutoModelForCausalLM.from_pretrained(
        source,
        dtype=getattr(torch, dtype),
        device_map=None if device == "cpu" else {"": device},
        use_safetensors=True,
        output_loading_info=True,
        **safe,
    )
    # transformers fills what is missing with random numbers and goes on.
    if found["missing_keys"]:
        lost = sorted(found["missing_keys"])
        raise ModelError(f"its weights lack {len(lost)} of the model's tensors ({lost[0]}, ...)")
    return model, tokenizer


def _drop_sampling_defaults(model: Any) -> None:
    """Keep the generation config's token ids, forget its temperature, top-k and the like."""
    from transformers import GenerationConfig

    old = model.generation_config
    model.generation_config = GenerationConfig(
        bos_token_id=old.bos_token_id, eos_token_id=old.eos_token_id, pad_token_id=old.pad_token_id
    )


@contextmanager
def _plain(name: str) -> Iterator[None]:
    """Turn whatever a library raises while it loads into one line."""
    try:
        yield
    except MemoryError as error:
        raise ModelError(f"{name} is too big for the memory at hand") from error
    except Exception as error:
        raise ModelError(f"{name} can't be loaded: {first_line(error)}") from error
