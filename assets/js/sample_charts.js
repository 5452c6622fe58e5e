/* Bars and dice of a previewed step, as changes to the figures that Python drew.
 *
 * In: a view (of preview.js, or playground/payload.py's: the same structure), the figure that is on
 * the page, and words(key) -> string of assets/words/sample.yaml; colours are dpConfig.light. Out:
 * what dp.charts[...].update() takes. The same arrays, texts and titles as charts/bars.py and
 * charts/sampling.py give for that view, which the tests compare; hover texts and text alternatives
 * wait for Python. Pure: no DOM, nothing kept.
 */
(function (root) {
  "use strict";

  const NBSP = "\u00a0";
  // Those of charts/bars.py ...
  const SHOWN = 20;
  const CELLS = 14;
  const ROOM = 1.45;
  const BREAK = 0.45;
  const LOG_ROOM = 0.45;
  const LEAST = 1e-12;
  const FADED = '<span style="opacity:0.62">';
  // ... and of charts/sampling.py.
  const LINE = 0.11;

  // ---- texts, as playground/format.py and charts/theme.py write them --------------------------

  function figureText(p) {
    if (!(p > 0)) return "0";
    if (p >= 1) return "1";
    if (p >= 0.9995) return `1−${(1 - p).toExponential(1)}`;
    if (p >= 0.02) return p.toFixed(3);
    return p >= 0.001 ? p.toFixed(4) : p.toExponential(1);
  }

  const countText = (n) => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");

  const fill = (text, fields) => text.replace(/\{(\w+)\}/g, (_, name) => fields[name]);

  const ESCAPED = { "&": "&amp;", "<": "&lt;", ">": "&gt;", $: "&#36;", "\r": "␍", "\n": "⏎", "\t": "⇥" };
  function escapeText(text) {
    return text.replace(/[&<>$\r\n\t]/g, (c) => ESCAPED[c]).replaceAll("%{", "%&#123;");
  }

  const WIDE = /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
  const cells = (char) => (/\p{M}/u.test(char) ? 0 : WIDE.test(char) ? 2 : 1);
  const width = (text) => [...text].reduce((sum, char) => sum + cells(char), 0);

  function shorten(text, most) {
    if (width(text) <= most) return text;
    let kept = "";
    for (const char of text) {
      if (width(kept + char) > most - 1) break;
      kept += char;
    }
    return kept + "…";
  }

  // ---- bars -----------------------------------------------------------------------------------

  /** One line: a listed token, one from outside the list (rank 0), or the rest. */
  function line(key, token, rank) {
    const final = token.final ?? token.p ?? 0;
    const { id, label, raw = null, removed_by: cut = "" } = token;
    return { key, id, label, rank, raw, final, cut, tip: Math.max(final, raw || 0) };
  }

  function outsideLine(view, listed) {
    for (const token of [view.taken, view.drawn]) {
      if (token && !listed.has(token.id)) {
        const known = view.rows.find((row) => row.id === token.id) || token;
        return line("outside", known, 0);
      }
    }
    return null;
  }

  function restLine(view) {
    const hidden = view.rows.slice(SHOWN);
    const sum = (field) => hidden.reduce((total, row) => total + row[field], 0);
    const kept = view.rest.kept + hidden.filter((row) => !row.removed_by).length;
    const rest = {
      id: null, label: "", raw: view.rest.raw + sum("raw"),
      final: kept ? view.rest.mass + sum("final") : 0, removed_by: kept ? "" : "rest",
    };
    return { ...line("rest", rest, 0), count: view.rest.n + hidden.length };
  }

  function bars(view, figure, word) {
    const colors = root.dpConfig.light;
    const log = figure.layout.xaxis.type === "log";
    const rows = view.rows.slice(0, SHOWN).map((row) => line(`id:${row.id}`, row, row.rank));
    const outside = outsideLine(view, new Set(rows.map((row) => row.id)));
    const rest = restLine(view);
    const listed = outside ? [...rows, outside] : rows;
    const lines = [...listed, rest];

    // The axis: room right of the longest bar, in steps; a linear one breaks off a long rest.
    const raws = rows.map((row) => row.raw).filter((raw) => raw > 0);
    const least = Math.max(raws.length ? Math.min(...raws) : 1, LEAST);
    const low = log ? Math.max(LEAST, 10 ** (Math.floor(Math.log10(least)) - 0.5)) : 0;
    const longest = Math.max(...(log ? lines : listed).map((row) => row.tip));
    const step = longest ? 2 ** (Math.ceil(2 * Math.log2(longest)) / 2) : 1;
    const high = step * (log ? (step / low) ** LOG_ROOM : ROOM);
    const most = log ? high : high * BREAK;
    const at = (x, row) => (!x ? null : row === rest ? Math.min(x, most) : x);

    const is = (token) => (row) => token !== null && row.id === token.id && row !== rest;
    const drawn = listed.filter(is(view.drawn));
    const taken = listed.filter(is(view.taken)).filter((row) => !drawn.includes(row));
    const y = lines.map((row) => row.key);
    const ids = lines.map((row) => row.id);
    const figureOf = (row) => figureText(row.cut ? row.raw || 0 : row.final);
    const cutText = (stage) => {
      if (stage === "model") return word("cut_model");
      if (stage === "temperature") return word("cut_greedy");
      return fill(word("cut_by"), { stage: word(`stage_${stage}`) });
    };
    const text = (row) => {
      const parts = [figureOf(row)];
      if (row.cut) parts.push(`<i>${escapeText(cutText(row.cut))}</i>`);
      const mark = drawn.includes(row) ? "drawn" : taken.includes(row) ? "taken" : "";
      if (mark) parts.push(escapeText(word(mark)));
      return NBSP.repeat(mark ? 2 : 1) + parts.join(NBSP.repeat(2));
    };
    const restText = fill(word("rest_text"), { count: countText(rest.count), mass: figureOf(rest) });
    const broken = rest.tip > most ? `${NBSP}//${NBSP}` : NBSP;
    const color = (row) =>
      colors[drawn.includes(row) ? "attention_text" : row.cut ? "muted" : "ink"];
    const marks = (some) => ({
      x: some.map((row) => Math.max(row.tip, low)), y: some.map((row) => row.key),
    });

    // Ticks keep their texts: the listed tokens are the same, only paler where they are cut.
    const ticks = figure.layout.yaxis.ticktext.slice(0, rows.length).map((tick, i) => {
      const plain = tick.startsWith(FADED) ? tick.slice(FADED.length, -"</span>".length) : tick;
      return rows[i].cut ? `${FADED}${plain}</span>` : plain;
    });
    ticks.push(outside ? outsideTick(outside) : "", figure.layout.yaxis.ticktext.at(-1));

    const size = view.rows.length + view.rest.n;
    const title = view.kept === size ? "bars_title_all" : view.kept === 1 ? "bars_title_one"
      : "bars_title";
    return {
      traces: {
        final: {
          y, customdata: ids, x: lines.map((row) => at(row.final, row)), hovertext: null,
          "marker.color": lines.map((row) => colors[row === rest ? "ramp2" : "accent"]),
        },
        masked: { y, customdata: ids, x: lines.map((row) => (row.cut ? at(row.raw, row) : null)) },
        raw: { y, customdata: ids, x: lines.map((row) => (row.cut ? null : at(row.raw, row))) },
        text: {
          y, x: lines.map((row) => Math.max(at(row.tip, row) || 0, low)),
          text: [...listed.map(text), escapeText(broken + restText)],
          "textfont.color": lines.map(color),
        },
        drawn: marks(drawn),
        taken: marks(taken),
        draws: { y, x: lines.map(() => null) }, // an experiment of other settings
      },
      layout: {
        "xaxis.range": log ? [Math.log10(low), Math.log10(high)] : [0, high],
        "yaxis.ticktext": ticks,
      },
      title: fill(word(title), { kept: countText(view.kept), size: countText(size) }),
      subtitle: word(log ? "bars_subtitle_log" : "bars_subtitle"),
    };
  }

  function outsideTick(row) {
    const label = shorten(row.label, CELLS);
    const tick = NBSP.repeat(2 + CELLS - width(label)) + escapeText(label);
    return row.cut ? `${FADED}${tick}</span>` : tick;
  }

  // ---- dice -----------------------------------------------------------------------------------

  function dice(view, figure, word) {
    const colors = root.dpConfig.light;
    const { u, drawn, cdf } = view;
    const n = cdf.length;
    const found = drawn ? cdf.findIndex((step) => step.id !== null && step.id === drawn.id) : 0;
    const place = found < 0 ? n + 0.6 : found;
    const more = view.kept > n;
    const right = Math.max(n + (more ? 1.2 : 0), 1);
    const end = drawn ? drawn.before + drawn.p : 0;
    const name = drawn ? drawn.label || word("unnamed") : "";
    const texts = riserLabels(cdf, drawn, name, place);
    if (u !== null) {
      texts.push([0, u, u.toFixed(3) + NBSP.repeat(2), "middle left", "attention_text"]);
    }
    const path = (pairs) => ({ x: pairs.map((p) => p[0]), y: pairs.map((p) => p[1]) });
    const last = cdf[n - 1].upto;
    const tail = !more ? [] : !drawn || place < n ? [[n, last], [n + 1.2, 1]]
      : [[n, last], [place, drawn.before], [place, Math.min(1, end)], [n + 1.2, 1]];
    const ticks = [0, 1].filter((tick) => u === null || Math.abs(tick - u) > LINE);
    const greedy = u === null;
    return {
      traces: {
        cdf: path([[0, 0], ...cdf.map((step, i) => [i + 1, step.upto])]),
        tail: path(tail),
        u: path(greedy ? [] : [[0, u], [place, u]]),
        interval: path(drawn ? [[place, drawn.before], [place, end]] : []),
        hit: path(drawn ? [[place, greedy ? drawn.before + drawn.p / 2 : u]] : []),
        text: {
          ...path(texts),
          text: texts.map(([, , text]) => escapeText(text)),
          textposition: texts.map(([, , , side]) => side),
          "textfont.color": texts.map(([, , , , color]) => colors[color]),
        },
      },
      layout: {
        "xaxis.range": [-0.015 * right, right * 1.02],
        "yaxis.tickvals": ticks,
        "yaxis.ticktext": ticks.map(String),
      },
      title: greedy ? fill(word("dice_greedy"), { label: (drawn || cdf[0]).label })
        : fill(word("dice_title"), { u: u.toFixed(3), label: name }),
      subtitle: word(greedy ? "dice_subtitle_greedy" : "dice_subtitle"),
    };
  }

  /** The drawn token's label, and those of all risers tall enough to hold a line of text. */
  function riserLabels(cdf, drawn, name, place) {
    const out = [];
    const levels = [];
    if (drawn) {
      const middle = drawn.before + drawn.p / 2;
      const late = place > 0.62 * cdf.length;
      const text = NBSP.repeat(2) + shorten(name, 16) + NBSP.repeat(2);
      const level = late ? Math.min(middle + LINE * 0.9, 1) : middle;
      out.push([place, level, text, late ? "middle left" : "middle right", "attention_text"]);
      levels.push(middle);
    }
    cdf.forEach((step, i) => {
      const middle = step.upto - step.p / 2;
      if (step.p >= LINE && levels.every((level) => Math.abs(middle - level) >= LINE)) {
        out.push([i, middle, NBSP + shorten(step.label, 14), "middle right", "muted"]);
        levels.push(middle);
      }
    });
    return out;
  }

  root.dp = root.dp || {};
  root.dp.sampleCharts = { bars, dice, shorten, figureText };
})(globalThis);
