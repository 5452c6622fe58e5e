// Moves what Plotly has drawn to new values, in place: a frame of a dragged slider has no time for
// Plotly.react, which takes ten times as long as this.
//
//   dp.patch(plot, now, was, data)  draws the figure `now` where `was` is drawn; `data` makes its
//                traces in the page's colours. True if it did; false, with nothing touched, where
//                Plotly must: another number of bars, other ticks, markers that weren't there.
//   dp.unpatch(plot)  to be called before Plotly draws again: it doesn't look at tick texts that it
//                believes unchanged. All else it draws anew from the figure.
//
// It knows what Plotly makes of horizontal bars, markers, straight and stepped lines and texts of
// one line: figures that have nothing else say so (meta.live). Hover boxes follow when Plotly draws.
(() => {
  if (!window.dp || dp.patch) return;
  const ANCHOR = { right: "start", left: "end", center: "middle" };
  const DROP = { top: -0.25, middle: 0.25, bottom: 0.75 };  // of the font's size
  const ENTITY = { amp: "&", lt: "<", gt: ">", "#36": "$", "#123": "{" };
  const CHANGED = "dp-patched";
  const round = (v) => Math.round(v * 100) / 100;
  const plain = (text) => text.replace(/&(\w+|#\d+);/g, (all, name) => ENTITY[name] ?? all);
  const equal = (a, b) => {
    if (a === b) return true;
    if (!a || !b || typeof a !== "object" || typeof b !== "object") return false;
    if (Array.isArray(a)) return a.length === b.length && a.every((v, i) => equal(v, b[i]));
    return alike(a, b);
  };
  /** Whether two objects are equal but for some of their fields. */
  const alike = (a, b, but = []) => Object.keys({ ...a, ...b })
    .every((key) => but.includes(key) || equal(a[key], b[key]));

  const of = (value, i) => (Array.isArray(value) ? value[i] : value);

  /** value -> px from the plot area's corner, as Plotly counts them; null where it draws nothing. */
  const pixels = (axis, length, down) => {
    const [from, to] = axis.range;
    const keys = axis.categoryarray;
    const places = keys && new Map(keys.map((key, i) => [key, i]));
    return (value) => {
      const v = places ? places.get(value) : axis.type === "log" ? Math.log10(value) : value;
      if (value == null || !Number.isFinite(v)) return null;
      const part = (v - from) / (to - from);
      return round(length * (down ? 1 - part : part));
    };
  };

  /** Puts Plotly's markup (<i>, <span style>, entities) into an SVG text. */
  const write = (node, markup) => {
    if (node.getAttribute("data-unformatted") === markup) return false;
    node.setAttribute("data-unformatted", markup);
    if (!markup.includes("<")) {
      node.textContent = plain(markup);
      return true;
    }
    node.textContent = "";
    for (const [, tag, style, inner, rest] of
         markup.matchAll(/<(i|span)(?: style="([^"]*)")?>([^<]*)<\/\1>|([^<]+)/g)) {
      if (!tag) { node.append(plain(rest)); continue; }
      const part = document.createElementNS(node.namespaceURI, "tspan");
      part.setAttribute("style", style ?? "font-style:italic");
      part.textContent = plain(inner);
      node.append(part);
    }
    return true;
  };

  // --- one function per kind of trace: returns what is to be done, or null where Plotly must

  const barMoves = (group, trace, x) => {
    const paths = [...group.querySelectorAll(".point > path")];
    if (paths.length !== trace.x.length) return null;
    const outline = trace.marker.line?.width ?? 0;
    return () => paths.forEach((path, i) => {
      const [, drawn, top, bottom] = /^M([^,]*),([^V]*)V([^H]*)H/.exec(path.getAttribute("d"));
      const base = of(trace.base, i) || 0;
      const from = base ? x(base) : Number(drawn);  // 0 is where the axis begins, a log one too
      let end = trace.x[i] == null ? null : x(base + trace.x[i]);
      path.style.strokeWidth = `${end === null ? 0 : outline}px`;
      if (!outline && end !== null && Math.abs(end - from) < 2) end = Math.ceil(end);
      path.setAttribute("d", `M${from},${top}V${bottom}H${end ?? from}V${top}Z`);
    });
  };

  /** The nodes for n points: those that are there, copies of the first, or null if there is none. */
  const nodesFor = (group, selector, n) => {
    const nodes = [...group.querySelectorAll(selector)];
    if (n && !nodes.length) return null;
    return () => {
      for (const extra of nodes.splice(n)) extra.remove();
      while (nodes.length < n) {
        nodes.push(nodes[0].cloneNode(true));
        nodes[0].parentNode.append(nodes[nodes.length - 1]);
      }
      return nodes;
    };
  };

  const points = (trace, x, y) => trace.x.map((value, i) => [x(value), y(trace.y[i]), i])
    .filter(([a, b]) => a !== null && b !== null);

  const markerMoves = (group, trace, x, y) => {
    const at = points(trace, x, y);
    const nodes = nodesFor(group, ".points > path.point", at.length);
    return nodes && (() => nodes().forEach((node, i) => {
      node.setAttribute("transform", `translate(${at[i][0]},${at[i][1]})`);
    }));
  };

  const lineMoves = (group, trace, x, y) => {
    const at = points(trace, x, y);
    const nodes = nodesFor(group, ".lines > path.js-line", at.length > 1 ? 1 : 0);
    const stepped = trace.line.shape === "vh";
    const d = at.map(([a, b], i) => !i ? `M${a},${b}` : stepped ? `V${b}H${a}` : `L${a},${b}`);
    return nodes && (() => nodes().forEach((node) => node.setAttribute("d", d.join(""))));
  };

  const textMoves = (group, trace, x, y) => {
    const at = points(trace, x, y);
    const nodes = nodesFor(group, ".text > g.textpoint", at.length);
    return nodes && (() => nodes().forEach((node, n) => {
      const [a, b, i] = at[n];
      const [height, side] = of(trace.textposition, i).split(" ");
      const text = node.querySelector("text");
      node.setAttribute("transform", `translate(0,${round(trace.textfont.size * DROP[height])})`);
      write(text, trace.text[i]);
      text.setAttribute("x", a);
      text.setAttribute("y", b);
      text.setAttribute("text-anchor", ANCHOR[side]);
      text.style.fill = of(trace.textfont.color, i);
    }));
  };

  const KINDS = { markers: markerMoves, lines: lineMoves, text: textMoves };

  // --- axes

  // Along an axis without figures and rules, another range moves only what is drawn in it.
  const bare = (axis) => axis.visible === false
    || (axis.showticklabels === false && axis.showgrid === false);
  const sameAxis = (now, was) => alike(now, was, ["range", "ticktext"])
    && (bare(now) || equal(now.range, was.range));

  const tickMoves = (plot, axis, was) => {
    if (equal(axis.ticktext, was.ticktext)) return () => {};
    const ticks = [...plot.querySelectorAll("g.ytick")];
    const keys = ticks.map((tick) => axis.categoryarray?.[tick.__data__?.x]);
    const texts = keys.map((key) => axis.ticktext[axis.tickvals.indexOf(key)]);
    if (texts.some((text) => text === undefined)) return null;
    return () => ticks.forEach((tick, i) => {
      if (write(tick.querySelector("text"), texts[i])) tick.classList.add(CHANGED);
    });
  };

  // What a trace may have otherwise than the drawn one.
  const VALUES = ["x", "y", "base", "text", "textposition", "textfont", "hovertext", "customdata"];
  const sameTrace = (now, was) => now === was || (alike(now, was, VALUES)
    && alike(now.textfont || {}, was.textfont || {}, ["color"])
    && (now.type !== "bar" || equal(now.y, was.y)));

  dp.patch = (plot, now, was, data) => {
    const axes = Object.keys(now.layout).filter((key) => /^[xy]axis\d*$/.test(key));
    const area = plot.querySelector(".nsewdrag");
    if (!area || !now.layout.meta?.live || now.data.length !== was.data.length
        || !alike(now.layout, was.layout, ["title", "meta", ...axes])
        || !axes.every((key) => sameAxis(now.layout[key], was.layout[key] || {}))
        || !now.data.every((trace, i) => sameTrace(trace, was.data[i]))) return false;
    const scales = {};
    for (const key of axes) {
      const down = key[0] === "y";
      const length = Number(area.getAttribute(down ? "height" : "width"));
      scales[key] = pixels(now.layout[key], length, down);
    }
    const bars = plot.querySelectorAll(".barlayer > .trace");
    let seen = 0;
    const moves = data().map((trace) => {
      const group = trace.type === "bar" ? bars[seen++] : plot.querySelector(`.trace${trace.uid}`);
      if (!group) return trace.x.length ? null : () => {};  // Plotly makes none for an empty trace
      const x = scales[`xaxis${(trace.xaxis || "x").slice(1)}`];
      const y = scales[`yaxis${(trace.yaxis || "y").slice(1)}`];
      if (trace.type === "bar") return barMoves(group, trace, x);
      return KINDS[trace.mode]?.(group, trace, x, y) ?? null;
    });
    moves.push(tickMoves(plot, now.layout.yaxis, was.layout.yaxis));
    if (moves.includes(null)) return false;
    for (const move of moves) move();
    return true;
  };

  dp.unpatch = (plot) => {
    for (const tick of plot.querySelectorAll(`.${CHANGED}`)) tick.remove();
  };
})();
