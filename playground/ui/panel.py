"""The left panel: model, prompt with its options, seed, and the filters.

Builds the controls and reads them back as a Prompt and SamplingParams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from playground.models import CATALOGUE
from playground.models.catalogue import ModelEntry, model_state
from playground.records import SamplingParams
from playground.session import Prompt
from playground.ui.components import TABS, Sentence
from playground.ui.controls import MAIN, MORE, PENALTIES, PRESETS, RULES, Control, SamplingControls
from playground.ui.language import Labels
from playground.ui.order import OrderEditor
from playground.words import Translate, translator

EXAMPLES = (
    "Once upon a time, there was a",
    "The capital of France is",
    "Water is made of",
    "I went to the store and",
    "The best way to learn is",
    "def fibonacci(n):",
    "从前有一座山，山里有一座",
)
BOS = ("auto", "on", "off")
CUSTOM = "custom"  # the preset's name when the sliders are on none of them
# The tabs that draw by the sampling controls.
SAMPLED = ("sample", "contrast", "speculate", "compare")


def only(*tabs: str) -> list[str]:
    """Return the classes of something that is seen only while one of the tabs is open."""
    return ["dp-only", *(f"dp-on-{tab}" for tab in tabs)]


class Panel:
    """The panel's controls; the attributes are Gradio components."""

    def __init__(self, labels: Labels, allow_any: bool) -> None:
        self.labels = labels
        self.controls = SamplingControls(labels)
        self._build(allow_any)

    def _build(self, allow_any: bool) -> None:
        add = self.labels.add
        self.model = add(
            gr.Dropdown(
                [(entry.title, entry.id) for entry in CATALOGUE],
                value="default",
                allow_custom_value=allow_any,
                elem_id="dp-model",
                interactive=True,
            ),
            "page.model",
        )
        self.model_line = Sentence(elem_id="dp-model-line", elem_classes="dp-plain")
        self.prompt = add(
            gr.Textbox(EXAMPLES[0], lines=2, max_lines=8, max_length=100_000, elem_id="dp-prompt"),
            "page.prompt",
        )
        self.labels.add(self.prompt, "page.prompt_placeholder", prop="placeholder")
        self.labels.add(self.prompt, "page.prompt_hint", prop="info")
        self.examples = gr.Dropdown(
            [(translator("en")("page.examples"), ""), *EXAMPLES],
            value="",
            label="Examples",
            show_label=False,
            elem_id="dp-examples",
            interactive=True,
        )
        with add(gr.Accordion(open=False, elem_id="dp-prompt-options"), "page.prompt_options"):
            self.chat = add(gr.Checkbox(False, elem_id="dp-chat"), "page.chat", info=True)
            self.system = add(gr.Textbox("", lines=2, elem_id="dp-system"), "page.system")
            self.turns = add(gr.Textbox("", lines=2, elem_id="dp-turns"), "page.turns", info=True)
            self.bos = add(
                gr.Radio(_offers("bos", BOS), value="auto", elem_id="dp-bos"), "page.bos"
            )
            self.special = add(gr.Checkbox(True, elem_id="dp-special"), "page.special", info=True)
        # A tab fills its own slot (``with panel.slots["beam"]:``); only the open tab's is seen.
        self.slots = {name: gr.Column(elem_classes=only(name)) for name in TABS}
        with gr.Column(elem_classes=only(*SAMPLED)):
            self.preset = add(
                gr.Dropdown(
                    _offers("preset", (*PRESETS, CUSTOM)),
                    value="balanced",
                    elem_id="dp-preset",
                    interactive=True,
                ),
                "page.preset",
            )
            self.controls.build(MAIN)
            self.controls.build([Control("seed", "seed")])
            for key, group in (("more_filters", MORE), ("penalties", PENALTIES), ("rules", RULES)):
                with add(gr.Accordion(open=False, elem_id=f"dp-{key}"), f"page.{key}"):
                    if group is RULES:
                        self.order = OrderEditor(elem_id="dp-order-chips")
                    self.controls.build(group)

    @property
    def prompt_parts(self) -> list[Any]:
        """The components that make the prompt."""
        return [self.prompt, self.chat, self.system, self.turns, self.bos, self.special]

    @property
    def inputs(self) -> set[Any]:
        """Every component that a handler may read."""
        return {*self.prompt_parts, *self.controls.parts.values(), self.model}

    @property
    def prompted(self) -> list[Any]:
        """The events by which a prompt was given."""
        left = [self.prompt.submit, self.prompt.blur, self.system.blur, self.turns.blur]
        return [*left, self.chat.input, self.bos.input, self.special.input]

    def read_prompt(self, data: Mapping[Any, Any]) -> Prompt:
        """Return the prompt as the controls show it."""
        return Prompt(
            text=data[self.prompt] or "",
            chat=bool(data[self.chat]),
            system=data[self.system] or "",
            turns=_turns(data[self.turns] or ""),
            bos=self.read_bos(data),
            special=bool(data[self.special]),
        )

    def read_bos(self, data: Mapping[Any, Any]) -> bool | None:
        """Return whether the prompt gets a BOS token; None leaves it to the model."""
        return {"on": True, "off": False}.get(data[self.bos])

    def read_params(self, data: Mapping[Any, Any]) -> SamplingParams:
        """Return the sampling params as the controls show them."""
        return self.controls.params(data)

    def show_prompt(self, prompt: Prompt) -> dict[Any, Any]:
        """Return the updates that show a prompt."""
        return {
            self.prompt: gr.update(value=prompt.text),
            self.chat: gr.update(value=prompt.chat),
            self.system: gr.update(value=prompt.system),
            self.turns: gr.update(value="\n".join(f"{r}: {c}" for r, c in prompt.turns)),
            self.bos: gr.update(value={None: "auto", True: "on", False: "off"}[prompt.bos]),
            self.special: gr.update(value=prompt.special),
        }

    def preset_of(self, params: SamplingParams) -> str:
        """Return the name of the preset that params are (whatever the seed), else "custom"."""
        plain = params.replace(seed=0)
        names = (name for name, preset in PRESETS.items() if preset.replace(seed=0) == plain)
        return next(names, CUSTOM)

    def choices(self, t: Translate) -> dict[Any, Any]:
        """Return the updates of choices whose words change with the language."""
        return {
            self.bos: gr.update(choices=_offers("bos", BOS, t)),
            self.preset: gr.update(choices=_offers("preset", (*PRESETS, CUSTOM), t)),
            self.examples: gr.update(
                choices=[(t("page.examples"), ""), *((text, text) for text in EXAMPLES)], value=""
            ),
            self.model: gr.update(choices=[(offer(entry, t), entry.id) for entry in CATALOGUE]),
        }


def _offers(of: str, names: Sequence[str], t: Translate | None = None) -> list[tuple[str, str]]:
    """Return a list's choices in words, English ones until the page's language is known."""
    return [((t or translator())(f"page.{of}_{name}"), name) for name in names]


def offer(entry: ModelEntry, t: Translate) -> str:
    """Return a catalogue entry in words; licence and size where it must be brought first."""
    state = model_state(entry.id).replace(" ", "_")
    if state == "here":
        return entry.title
    size = f"{entry.download_bytes / 1e6:,.0f} MB"
    return f"{entry.title} · {entry.licence} · {t(f'page.model_{state}', size=size)}"


def _turns(text: str) -> tuple[tuple[str, str], ...]:
    """Read "user: ..." lines; a line without a role goes on with the turn above."""
    turns: list[tuple[str, str]] = []
    for line in text.splitlines():
        role, colon, content = line.partition(":")
        if colon and role.strip().lower() in ("user", "assistant"):
            turns.append((role.strip().lower(), content.strip()))
        elif line.strip():
            if not turns:
                raise ValueError(f"turns must begin with user: or assistant:, got {line[:40]!r}")
            turns[-1] = (turns[-1][0], f"{turns[-1][1]}\n{line}")
    return tuple(turns)
