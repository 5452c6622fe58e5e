"""A small page with every component, for the browser tests and for looking at."""

from __future__ import annotations

import math

import gradio as gr
import plotly.graph_objects as go

from playground.charts import theme
from playground.format import figure_text
from playground.ui.components import (
    Figures,
    Keys,
    PlotlyChart,
    Sentence,
    Table,
    TokenStrip,
    Toolbar,
    launch_options,
    message,
)

# Texts that were markup, a template or a number somewhere; each must stay what it is.
HOSTILE = [
    "<b>bold</b>",
    "<br>",
    "</",
    "&lt;",
    "<sup>x</sup>",
    '<a href="javascript:1">',
    "<img src=x onerror=window.pwned=1>",
    "${window.pwned=2}",
    "{{constructor}}",
    "$x^2$",
    "%{y}",
    "`\\n`",
    "#FFFFFF",
    "2024",
    "1e1",
    "你好",
]


TWINS = [111, 112, 113, 7]  # ids of which three decode to the same string


def bars(labels, probabilities, ids=None, title="3 of 3 tokens survive", **layout):
    """Draw horizontal bars: outline and fill."""
    ids = list(range(len(labels))) if ids is None else ids
    keys = theme.category_keys(ids)
    short = [theme.shorten(label, 24) for label in labels]
    shared = dict(y=keys, x=list(probabilities), orientation="h", customdata=ids, hoverinfo="text")
    hover = [
        theme.lines(label, figure_text(p)) for label, p in zip(labels, probabilities, strict=True)
    ]
    cut = [None if p < 0.05 else p for p in probabilities]
    rest = [p if p < 0.05 else None for p in probabilities]
    data = [
        go.Bar(uid="final", marker=theme.final(), hovertext=hover, **shared | {"x": cut}),
        go.Bar(uid="masked", marker=theme.masked(), hovertext=hover, **shared | {"x": rest}),
        go.Bar(
            uid="raw",
            marker=theme.raw(),
            hovertext=hover,
            text=[theme.escape(figure_text(p)) for p in probabilities],
            textposition="outside",
            textfont=dict(family=theme.MONO),
            cliponaxis=False,
            **shared,
        ),
    ]
    return go.Figure(
        data,
        theme.base_layout(
            title,
            "probability of the next token: outline = model, fill = after the filters",
            alt="; ".join(f"{a} {b:.3f}" for a, b in zip(labels, probabilities, strict=True)),
            left=theme.label_margin(short),
            right=48,
            clickable=True,
            barmode="overlay",
            yaxis=theme.category_axis(keys, short, reverse=True),
            xaxis=theme.number_axis(range=[0, max(probabilities) * 1.05], showticklabels=False),
            **layout,
        ),
    )


def scatter(n=40):
    """Draw points that can be zoomed."""
    xs = [i / 4 for i in range(n)]
    return go.Figure(
        go.Scatter(
            x=xs,
            y=[math.sin(x) for x in xs],
            mode="lines+markers",
            marker=dict(color=theme.LIGHT["accent"]),
            line=dict(color=theme.fade("accent", 0.5)),
        ),
        theme.base_layout(
            "A curve",
            "drag to zoom",
            zoom=True,
            xaxis=theme.number_axis("x", fixedrange=False),
            yaxis=theme.number_axis("y", fixedrange=False),
        ),
    )


def tokens(labels, prompt=4, **more):
    """Return a strip's value: the first are the prompt's."""
    made = []
    for i, label in enumerate(labels):
        token = {"id": 100 + i, "label": label, "kind": "prompt" if i < prompt else "new"}
        if i >= prompt:
            p = 0.9 / (1 + (i * 7) % 11) ** 2
            token |= {"p": p, "rank": 1 + i % 5, "surprisal": -math.log(p), "logprob": math.log(p)}
            token["source"] = "sampled"
        made.append(token)
    return {"tokens": made, "cursor": len(made), "next": True, **more}


STORY = [
    *["Once", "·upon", "·a", "·time", ",", "·there", "·was", "·a", "·small", "·village"],
    "·nestled",
    "⏎",
]


def build():
    """Return the demo and its launch options."""
    with gr.Blocks(title="Components", fill_width=True, analytics_enabled=False) as demo:
        with gr.Row(elem_classes="dp-header"):
            gr.HTML('<h1 class="dp-brand">Decoding Playground</h1>', apply_default_css=False)
            tools = Toolbar(elem_id="tools")
        with gr.Sidebar(width=264, elem_classes="dp-sidebar"):
            gr.HTML(
                '<p class="dp-caption">Model</p><div class="dp-card"><b>SmolLM2-135M-Instruct</b>'
                "<br><span>cpu · float32 · 49,152 tokens</span></div>",
                apply_default_css=False,
            )
            gr.Textbox(
                "Once upon a time, there was a",
                label="Prompt",
                lines=2,
                interactive=True,
                elem_id="prompt",
            )
            temperature = gr.Slider(
                0, 2, 0.8, step=0.01, label="Temperature", interactive=True, elem_id="temperature"
            )
            gr.Slider(0, 200, 50, step=1, label="Top-k", interactive=True)
            gr.Slider(0, 1, 0.9, step=0.01, label="Top-p", interactive=True)
            gr.Number(7, label="Seed", precision=0, interactive=True)
            gr.Dropdown(["transformers", "vllm"], value="transformers", label="Order")
            gr.Checkbox(True, label="Chat template", interactive=True)
            gr.Radio(["a", "b"], value="a", label="Kind", interactive=True)
            with gr.Accordion("More filters", open=False):
                gr.Slider(0, 1, 0.05, step=0.01, label="Min-p", interactive=True)
        with gr.Tabs(elem_classes="dp-tabs"):
            with gr.Tab("Sample", id="sample"):
                keys = Keys()
                strip = TokenStrip(tokens(STORY), elem_id="strip")
                with gr.Row(elem_classes="dp-toolbar"):
                    step = gr.Button("Step", variant="primary", elem_id="step")
                    back = gr.Button("Back", elem_id="back")
                    gr.Button("Run", elem_id="run")
                    gr.Button("Reset", elem_id="reset")
                    gr.HTML(
                        '<p class="dp-hint">click a bar or press 1–9 to take that token</p>',
                        apply_default_css=False,
                    )
                with gr.Row(elem_classes="dp-main-grid"):
                    with gr.Column():
                        chart = PlotlyChart(
                            bars([" a", " b", " c"], [0.5, 0.3, 0.2], ids=[7, 8, 9]),
                            height=420,
                            elem_id="bars",
                        )
                    with gr.Column():
                        curve = PlotlyChart(scatter(), height=180, elem_id="curve")
                        PlotlyChart(None, height=140, elem_id="empty")
                figures = Figures(
                    [
                        {"value": "3.19", "label": "entropy, nats (model)", "title": "H"},
                        {"value": "24.2", "label": "perplexity"},
                        {"value": "0.144", "label": "mass cut", "tone": "attention"},
                    ],
                    elem_id="figures",
                )
                sentence = Sentence(
                    ["Drew ", {"token": "·bustling"}, ": probability 0.243, rank 2."],
                    elem_id="sentence",
                )
            with gr.Tab("Late", id="late"):
                late = PlotlyChart(scatter(), height=240, elem_id="late")
                table = Table(
                    {
                        "columns": [
                            {"label": "#", "kind": "number"},
                            {"label": "hypothesis", "kind": "token"},
                            {"label": "score", "kind": "number"},
                        ],
                        "rows": [
                            {"cells": ["1", "·a ·woman", "-1.071"], "id": 11},
                            {"cells": ["2", "<b>x</b>", "-1.074"], "id": 12},
                        ],
                    },
                    elem_id="table",
                )
            for name in ("Beam", "Contrast", "Speculate", "Read"):
                with gr.Tab(name):
                    gr.Markdown(name)
        log = gr.Textbox(label="log", elem_id="log", interactive=False)
        with gr.Row():
            hostile = gr.Button("hostile", elem_id="hostile")
            many = gr.Button("many", elem_id="many")
            vast = gr.Button("vast", elem_id="vast")
            twins = gr.Button("twins", elem_id="twins")
            old = gr.Button("old", elem_id="old")
            new = gr.Button("new", elem_id="new")
            marks = gr.Button("marks", elem_id="marks")
            clear = gr.Button("clear", elem_id="clear")

        def on(event, fn, outputs=None):
            event(
                fn,
                None,
                log if outputs is None else outputs,
                queue=False,
                show_progress="hidden",
                api_visibility="private",
            )

        on(chart.clicked, says("clicked", "customdata"))
        on(strip.pick, says("pick", "index", "id"))
        on(table.pick, says("row", "id"))
        on(tools.language, says("language", "language"))
        on(tools.shared, says("shared", "url"))
        on(keys.digit, says("digit", "digit"))
        for name in ("step", "back", "run"):
            on(getattr(keys, name), says(f"key {name}"))
        counter = gr.State(0)
        step.click(
            lambda n: (
                n + 1,
                tokens(STORY + ["·word"] * (n + 1)),
                scatter(40 + n),
                f"Drew word {n + 1}.",
                {"query": f"state={n + 1}"},
            ),
            counter,
            [counter, strip, curve, sentence, tools],
            queue=False,
            api_visibility="private",
        )
        labels = [f"{i}" for i in (1, 2, 2024)] + ["1e1", "0x64", "-1", " the"]
        on(back.click, lambda: bars(labels, [0.3, 0.2, 0.15, 0.1, 0.1, 0.1, 0.05]), chart)
        on(
            hostile.click,
            lambda: (
                bars(
                    HOSTILE, [0.9 / (i + 1.5) ** 1.2 for i in range(len(HOSTILE))], title="<b>${1}"
                ),
                tokens(HOSTILE),
                [{"value": h, "label": h, "title": h} for h in HOSTILE[:3]],
                [HOSTILE[6], {"token": HOSTILE[6]}],
            ),
            [chart, strip, figures, sentence],
        )
        on(many.click, lambda: tokens(["·word"] * 400, prompt=300), strip)
        on(vast.click, lambda: tokens(["·word"] * 2000, prompt=1990), strip)
        on(twins.click, lambda: bars(["�"] * 3 + [" a"], [0.4, 0.3, 0.2, 0.1], TWINS), chart)
        on(new.click, newer, chart)
        on(old.click, older, chart)
        on(clear.click, lambda: (message("Nothing <b>here</b>"), None), [chart, strip])
        on(marks.click, marked, strip)
        temperature.release(lambda: scatter(30), None, late, queue=False, api_visibility="private")
    return demo, launch_options()


def says(what, *fields):
    """Return a handler that writes an event and its fields into the log."""

    def handler(event: gr.EventData):
        return " ".join([what, *(str(event._data[field]) for field in fields)])

    return handler


def newer():
    """Return a figure with a high sequence number."""
    figure = bars(["n"], [1.0], title="newer")
    figure.layout.meta = {**figure.layout.meta, "seq": 20}
    return figure


def older():
    """Return a figure that was asked for earlier."""
    figure = bars(["o"], [1.0], title="older")
    figure.layout.meta = {**figure.layout.meta, "seq": 10}
    return figure


def marked():
    """Return a strip with every kind of mark."""
    value = tokens(["<|im_start|>", *STORY, "<F0 9F>", "<|im_end|>"], prompt=5)
    for token, source in zip(
        value["tokens"][5:],
        ["accepted", "rejected", "recovered", "bonus", "forced", "greedy"],
        strict=False,
    ):
        token["source"] = source
    value["tokens"][0]["kind"] = value["tokens"][-1]["kind"] = "special"
    value["tokens"][12]["branch"] = True
    value["tokens"][13]["stale"] = True
    value["cursor"] = 14
    return value


if __name__ == "__main__":
    page, options = build()
    page.launch(server_name="127.0.0.1", server_port=7871, quiet=True, **options)
