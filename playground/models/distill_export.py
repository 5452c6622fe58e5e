"""Export of the distilled student: its own weights in half precision, and a model card.

A checkpoint flows in; ``model.safetensors`` and ``README.md`` flow out. The card's figures are
measured here, with the very numbers that are written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

from playground.models.student import LAYERS, shallow

if TYPE_CHECKING:
    from playground.models.distill_train import Trainer

REQUIRED = 0.40  # a student that overlaps less is not worth shipping
LIMIT = 45_000_000  # bytes

_CARD = """\
---
license: apache-2.0
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
library_name: safetensors
tags: [distillation, speculative-decoding, contrastive-decoding]
---
# Distilled student of SmolLM2-135M-Instruct

{count} transformer layers that stand in for the {depth} of SmolLM2-135M-Instruct (as its Q4_1 file,
dequantised): the draft of speculative decoding and the amateur of contrastive decoding in Decoding
Playground. It is a teaching aid and no model to talk to: on its own it is fluent for a few words
and soon repeats itself or loses the thread.

The file holds {parameters:,} parameters in float16 ({megabytes:.1f} MB): the layers and the final
norm. Embeddings and output head are the teacher's and come from there; `playground.draft_of(lm)`
puts both together and refuses any other model (fingerprint `{teacher}`).

## Held-out figures

On {positions:,} positions of text that the teacher wrote after prompts kept out of the training
corpus (neither their templates nor their fillers occur in it), against the float32 teacher, with
the stored weights. *Overlap* is the sum of min(teacher, student) over the vocabulary: the chance
that speculative decoding at temperature 1 accepts a drafted token. KL is KL(teacher || student) in
nats. The positions are the teacher's own choices, no prompt tokens.

| text | overlap | KL |
|---|---|---|
| all | **{overlap:.3f}** | {kl:.3f} |
| sampled at temperature 1 | {overlap_own_law:.3f} | {kl_own_law:.3f} |
| chat answers | {overlap_chat:.3f} | |
| after text openers | {overlap_text:.3f} | |
| after one random token | {overlap_word:.3f} | |
| from nothing | {overlap_free:.3f} | |

For comparison, on a tenth of these positions: the teacher cut off after its first {count} layers,
undistilled, {exit_same:.3f}; after half of its layers {exit_half:.3f}.

## Training

Started from the teacher's layers {layers}. Corpus: {corpus:,} tokens sampled from the teacher (no
human text): chat turns, text openers, single tokens and nothing as prompts; temperature 1 for
about two thirds of the texts, 0.8 and 0.6 for the rest. {steps:,} steps over {tokens:,} tokens
({epochs:.1f} times the corpus), on two CPU cores shared with other work. Loss: KL(teacher ||
student) plus half the total variation, at first within parts of the vocabulary and with a squared
error of logits beside it, over the whole vocabulary at the end. AdamW, peak rate {rate:g}, falling
to zero over the last {fall:.0%} of the time. `python -m playground.models.distill` trains it again.

Overlap on a quick look at the held-out texts as training went on, (tokens, overlap): {history}.

## Limits

English only, as far as the teacher's is; the teacher's mistakes and biases are its own too. Texts
of up to 640 tokens were seen in training, mostly chat and encyclopaedic prose: code and other
languages overlap less.
"""


def export(trainer: Trainer, folder: Path, teacher: str) -> dict[str, Any]:
    """Write the student in ``folder``; returns the figures.

    ``teacher`` is the fingerprint of the weights it belongs to. Raises ValueError when the student
    is too weak or the file would be too big.
    """
    weights = {k: p.detach().half() for k, p in trainer.weights.items()}
    with torch.no_grad():  # what is measured is what is stored
        for name, p in trainer.weights.items():
            p.copy_(weights[name])
    size = sum(w.numel() * w.element_size() for w in weights.values())
    if size > LIMIT:
        raise ValueError(f"the student must be at most {LIMIT:,} bytes, got {size:,}")
    found = trainer.evaluate()
    if found["overlap"] < REQUIRED:
        raise ValueError(f"overlap must be at least {REQUIRED}, got {found['overlap']}")
    depth = trainer.teacher.config.num_hidden_layers
    exits = {}
    for name, count in (("exit_same", len(LAYERS)), ("exit_half", depth // 2)):
        student = shallow(trainer.teacher, range(count))
        exits[name] = trainer.evaluate(every=10, student=student)["overlap"]
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", {"teacher": teacher, "format": "pt"})
    values = {
        **found,
        **exits,
        "count": len(LAYERS),
        "depth": depth,
        "layers": ", ".join(map(str, LAYERS)),
        "parameters": sum(w.numel() for w in weights.values()),
        "megabytes": size / 1e6,
        "teacher": teacher,
        "steps": found["step"],
        "epochs": found["tokens"] / max(found["corpus"], 1),
        "history": ", ".join(f"({h['tokens']:,}, {h['overlap']:.3f})" for h in trainer.history),
        **trainer.settings,
    }
    values["positions"] = int(values["positions"])
    (folder / "README.md").write_text(_CARD.format(**values), "utf-8")
    return found
