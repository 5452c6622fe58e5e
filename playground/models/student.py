"""The distilled student: a few of a model's layers, around the model's own embeddings and head.

The student shares the embeddings and the head with its teacher, so only its layers and its final
norm are stored (assets/student, half precision). ``shallow`` also makes the early exit: the same
without a trained weight.

Terms: *exit*, the teacher's own first layers, shared; *student*, layers of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

# Which of the teacher's layers a student starts from: the first ones read, the last ones write.
LAYERS = (0, 1, 2, 14, 27, 29)

# Family -> (the body's attribute, its list of layers, what it shares with the whole model).
_FAMILIES = {
    "llama": ("model", "layers", ("embed_tokens", "norm", "rotary_emb")),
    "mistral": ("model", "layers", ("embed_tokens", "norm", "rotary_emb")),
    "qwen2": ("model", "layers", ("embed_tokens", "norm", "rotary_emb")),
    "qwen3": ("model", "layers", ("embed_tokens", "norm", "rotary_emb")),
    "gpt2": ("transformer", "h", ("wte", "wpe", "drop", "ln_f")),
}


def shallow(model: Any, layers: Sequence[int], own: bool = False) -> Any:
    """Return a causal model of the same class that has only those layers of ``model``.

    Every weight is shared with ``model``; with ``own`` the layers and the final norm are copies,
    to be trained or filled. Raises ValueError for a family whose parts we don't know, and for
    layers that ``model`` doesn't have. Layers that are shared must be its first ones: an attention
    layer knows its place in the cache.
    """
    family = model.config.model_type
    if family not in _FAMILIES:
        raise ValueError(
            f"layers can be taken out of these model families: {', '.join(_FAMILIES)}; got {family}"
        )
    layers = tuple(layers)
    depth = model.config.num_hidden_layers
    if not layers or not all(0 <= i < depth for i in layers):
        raise ValueError(f"layers must be some of 0 to {depth - 1}, got {layers}")
    if not own and layers != tuple(range(len(layers))):
        raise ValueError(f"shared layers must be the first ones, got {layers}")
    body, stack, parts = _FAMILIES[family]
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = len(layers)
    if getattr(config, "layer_types", None):
        config.layer_types = [model.config.layer_types[i] for i in layers]
    with torch.device("meta"):
        small = type(model)(config)
    source, target = getattr(model, body), getattr(small, body)
    for part in parts:
        setattr(target, part, getattr(source, part))
    small.lm_head = model.lm_head
    chosen = [getattr(source, stack)[i] for i in layers]
    if own:
        chosen = [copy.deepcopy(layer) for layer in chosen]
        for place, layer in enumerate(chosen):
            for module in layer.modules():
                if hasattr(module, "layer_idx"):
                    module.layer_idx = place
        norm = next(p for p in parts if p in ("norm", "ln_f"))
        setattr(target, norm, copy.deepcopy(getattr(source, norm)))
    setattr(target, stack, nn.ModuleList(chosen))
    small.generation_config = model.generation_config
    return small.eval()


def own_weights(student: Any) -> dict[str, torch.Tensor]:
    """Return what a student doesn't share: its layers and its final norm, by name."""
    return {
        name: p
        for name, p in student.model.named_parameters()
        if name.startswith(("layers.", "norm."))
    }


def load_student(teacher: Any, path: Path) -> Any:
    """Build the student in ``path`` (safetensors) around ``teacher``'s embeddings and head.

    Raises ValueError when the file's names or shapes don't fit the teacher.
    """
    from safetensors.torch import load_file

    stored = load_file(path)
    count = 1 + max((int(k.split(".")[1]) for k in stored if k.startswith("layers.")), default=-1)
    student = shallow(teacher, range(count), own=True)
    weights = own_weights(student)
    if set(weights) != set(stored) or any(weights[k].shape != stored[k].shape for k in weights):
        raise ValueError(f"the student in {path} doesn't fit {teacher.config.model_type} weights")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(stored[name])
    return student
