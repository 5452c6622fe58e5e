"""Weaker views of a model: what serves it as amateur or as draft, with the same vocabulary.

- *short context*: the model itself, given only the last n tokens (Li et al. 2022's own device);
- *early exit*: its first layers, then its own final norm and head, no weight copied;
- *distilled*: a small student with layers of its own, trained to the default model and shipped
  with the project (assets/student); embeddings and head are the model's.

All are LanguageModels with caches of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from playground.language_model import LanguageModel, check_ids
from playground.records.checks import choice, integer

Kind = Literal["distilled", "short-context", "early-exit"]
KINDS: tuple[str, ...] = ("distilled", "short-context", "early-exit")
STUDENT = Path(__file__).resolve().parents[2] / "assets" / "student" / "model.safetensors"


class ShortContext:
    """A model that is shown only the last ``context`` tokens of whatever ids it is given.

    It wraps any LanguageModel and shares its vocabulary and its caches, which are right for any
    ids. It never runs out of context: the oldest tokens fall off.
    """

    def __init__(self, lm: LanguageModel, context: int = 8) -> None:
        self.inner = lm
        self.context = integer("context", context, 1, lm.context_length)
        self.name = f"{lm.name}, last {context} token{'s' * (context > 1)} only"
        self.vocab_size, self.eos_ids, self.bos_id = lm.vocab_size, lm.eos_ids, lm.bos_id
        self.context_length = None
        self.device, self.dtype = lm.device, lm.dtype
        self.fingerprint = f"{getattr(lm, 'fingerprint', lm.name)}+last{context}"

    def __getattr__(self, name: str) -> Any:
        # What a model may offer beside the protocol (token strings, vocabulary, tokenizer) is the
        # inner model's.
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def logits(self, ids: Sequence[int], last: int = 1) -> np.ndarray:
        """Return float32 [last, V], each position's from its own last ``context`` tokens."""
        return self.logits_many([ids], last)[0]

    def logits_many(self, prefixes: Sequence[Sequence[int]], last: int = 1) -> np.ndarray:
        """Return float32 [B, last, V]."""
        windows = []
        for prefix in prefixes:
            ids = check_ids(self, prefix, last)
            ends = range(len(ids) - last + 1, len(ids) + 1)
            windows += [ids[max(end - self.context, 0) : end] for end in ends]
        if len(windows) == 1:
            return self.inner.logits(windows[0])[None]
        return self.inner.logits_many(windows)[:, 0].reshape(len(prefixes), last, -1)

    def encode(self, text: str, **options: Any) -> list[int]:
        """Return the text's ids."""
        return self.inner.encode(text, **options)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids."""
        return self.inner.decode(ids)

    def label(self, token_id: int) -> str:
        """Return a visible label of one token."""
        return self.inner.label(token_id)


def amateur_of(
    lm: LanguageModel, kind: Kind = "distilled", context: int = 8, layer: int | None = None
) -> LanguageModel:
    """Return a weaker model made from ``lm``, to be its amateur.

    ``context``: how many tokens the short-context view sees. ``layer``: after how many layers the
    early exit leaves (None: half of them). Raises ValueError, with the reason, where ``lm`` can't
    give that view: early exits need a transformers model of a known family, and the distilled
    student belongs to the default model alone.
    """
    choice("kind", kind, KINDS)
    if kind == "short-context":
        return ShortContext(lm, context)
    if kind == "early-exit":
        return early_exit(lm, layer)
    return distilled(lm)


def draft_of(
    lm: LanguageModel, kind: Kind = "distilled", context: int = 8, layer: int | None = None
) -> LanguageModel:
    """Return a cheaper model made from ``lm``, to be its draft; as ``amateur_of``."""
    return amateur_of(lm, kind, context, layer)


def early_exit(lm: LanguageModel, layer: int | None = None) -> LanguageModel:
    """Return ``lm`` cut off after its first ``layer`` layers; every weight is shared."""
    from playground.lm import TransformersLM
    from playground.models.student import shallow

    if not isinstance(lm, TransformersLM):
        raise ValueError(f"kind must not be early-exit for {lm.name}: it has no layers to leave at")
    depth = lm.model.config.get_text_config(decoder=True).num_hidden_layers
    layer = max(depth // 2, 1) if layer is None else integer("layer", layer, 1, depth)
    model = shallow(lm.model, range(layer))
    name = f"{lm.name}, first {layer} of {depth} layers"
    return TransformersLM(model, lm.tokenizer, name, f"{weights_mark(lm)}+exit{layer}")


def distilled(lm: LanguageModel, path: Path = STUDENT) -> LanguageModel:
    """Return the student in ``path`` around ``lm``'s embeddings and head."""
    from safetensors import safe_open

    from playground.lm import TransformersLM
    from playground.models.student import load_student

    refusal = f"kind must not be distilled for {lm.name}"
    if not path.is_file():
        raise ValueError(f"{refusal}: the student's file is missing ({path})")
    with safe_open(path, "np") as file:
        meant = (file.metadata() or {}).get("teacher")
    if not isinstance(lm, TransformersLM) or weights_mark(lm) != meant:
        raise ValueError(f"{refusal}: the student was trained to the default model's weights only")
    model = load_student(lm.model, path)
    name = f"{lm.name}, distilled to {model.config.num_hidden_layers} layers"
    student = TransformersLM(model, lm.tokenizer, name, f"{meant}+student")
    student.student_file = path  # a proof script reads it again
    return student


def weights_mark(lm: LanguageModel) -> str:
    """Return the hash of a model's weights from its fingerprint ``name@hash/dtype``."""
    return lm.fingerprint.rpartition("@")[2].rpartition("/")[0]
