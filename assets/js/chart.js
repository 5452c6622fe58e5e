// Draws a Plotly figure in place and keeps it alive.
//
// In: the figure as one JSON string (props.value), made in the light palette by charts/theme.py; or
//     {"message": text} for an empty state. Out: the event "clicked" with the point's customdata.
//
// dp.charts[elem_id] has
//   .figure            the last figure from Python, untouched
//   .current           what is drawn now (with live changes, before theming)
//   .draw(figure)      replaces it, in the browser only
//   .update(partial)   changes the drawn figure: {traces: {KEY: {x: [...], "marker.color": ...}},
//                      layout: {"yaxis.range": [0, 1]}, title, subtitle, alt}; KEY is a trace's uid
//                      or index. Changes last until Python's next figure.
//   .plot              Plotly's div
//   .shown()           {data, layout} as drawn now: in the page's colours and size
(() => {
  if (!window.dp || dp.chart) return;
  const REST = 1000;  // ms
  const CONFIG = { displayModeBar: false, displaylogo: false, responsive: false, showTips: false,
                   doubleClick: "reset", scrollZoom: false };

  // --- theming: a deep copy with each palette colour in its dark form and type in its size
  const COLOR_KEY = /color/i;
  const rgba = /^rgba\((\d+), ?(\d+), ?(\d+), ?([\d.]+)\)$/;
  const hex = (n) => Number(n).toString(16).padStart(2, "0").toUpperCase();
  const swap = (color, map) => {
    const found = map[color.toUpperCase()];
    if (found) return found;
    const parts = rgba.exec(color);
    const dark = parts && map["#" + hex(parts[1]) + hex(parts[2]) + hex(parts[3])];
    if (!dark) return color;
    const at = (i) => parseInt(dark.slice(i, i + 2), 16);
    return `rgba(${at(1)},${at(3)},${at(5)},${parts[4]})`;
  };
  // Only fields named like colours are touched: a token may be called "#FFFFFF".
  const themed = (node, map, scale, inColor, key) => {
    if (typeof node === "string") return inColor && map ? swap(node, map) : node;
    if (typeof node === "number") {
      return key === "size" && scale !== 1 && inColor === "font" ? node * scale : node;
    }
    if (Array.isArray(node)) return node.map((item) => themed(item, map, scale, inColor, key));
    if (node && typeof node === "object") {
      const copy = {};
      const isFont = /font$/.test(key || "");
      for (const k in node) {
        const color = COLOR_KEY.test(k) && k !== "colorbar" && k !== "coloraxis";
        copy[k] = themed(node[k], map, scale, color ? "color" : isFont ? "font" : "", k);
      }
      return copy;
    }
    return node;
  };

  const assign = (target, changes) => {
    for (const path in changes) {
      const keys = path.split(".");
      let at = target;
      for (const k of keys.slice(0, -1)) at = at[k] = at[k] && typeof at[k] === "object" ? { ...at[k] } : {};
      at[keys[keys.length - 1]] = changes[path];
    }
  };

  const plain = (value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);

  dp.chart = ({ element, props, watch, send }) => {
    const root = element.querySelector(".dp-chart");
    const part = (name) => root.querySelector(".dp-chart-" + name);
    const [title, subtitle, plot, message, alt] = ["title", "subtitle", "plot", "message", "alt"].map(part);
    const id = props.name || element.id;
    alt.id = `dp-alt-${id}`;
    plot.setAttribute("aria-describedby", alt.id);
    root.style.setProperty("--dp-height", props.height / 16 + "rem");
    root.style.setProperty("--dp-sub-lines", props.lines || 1);
    const chart = { figure: null, current: null, plot, root, seq: null };
    dp.charts[id] = chart;
    let waiting = 0;  // the pending animation frame
    let drawn = null;  // the figure that is drawn in the page's present colours and size
    let behind = 0;  // the timer until Plotly draws what was patched
    let drawnWidth = 0;
    let width = 0;  // as observed: asking for it makes the browser lay the page out anew
    let looked = null;  // the px of a wide figure that was last scrolled into view

    const say = (text) => {
      message.textContent = text;
      root.classList.toggle("dp-is-empty", !!text);
      plot.inert = !!text;
    };
    const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };
    const heading = (meta) => {
      put(title, meta.title || "");
      put(subtitle, meta.subtitle || "");
      plot.setAttribute("aria-label", meta.title || props.label || "");
      put(alt, meta.alt || "");
      root.classList.toggle("dp-has-title", !!meta.title);
      root.classList.toggle("dp-has-subtitle", !!meta.subtitle);
      root.classList.toggle("dp-clickable", !!meta.clickable);
    };

    const inColors = (node) =>
      themed(node, dp.isDark() ? (window.dpConfig || {}).dark : null, dp.scale(), "", "");
    const tracesNow = () => {
      const traces = inColors(chart.current.data || []);
      for (const trace of traces) {
        // Plotly takes the element of an empty text away, and a later text finds none.
        if (Array.isArray(trace.text)) trace.text = trace.text.map((text) => text || "\u00a0");
      }
      return traces;
    };
    const themedNow = () => {
      const layout = chart.current.layout || {};
      const shown = { data: tracesNow(), layout: inColors(layout) };
      const out = shown.layout;
      if ((layout.meta || {}).title) {
        delete out.title;  // drawn in HTML above the plot
        out.margin = { ...out.margin, t: layout.meta.top ?? 8 };
      }
      if (dp.scale() !== 1 && out.margin) {
        for (const side of ["l", "r", "t", "b"]) if (out.margin[side]) out.margin[side] *= dp.scale();
      }
      out.height = (layout.height || props.height) * dp.scale();
      return shown;
    };
    chart.shown = themedNow;

    // Plotly, which takes long, is let alone while values move; what it knows (hover boxes) follows.
    const paint = () => {
      waiting = 0;
      const figure = chart.current;
      if (!figure) return;
      heading((figure.layout || {}).meta || {});
      if (!window.Plotly) { say(dp.word("chart_failed")); return; }
      say("");
      if (!drawn || !dp.patch(plot, figure, drawn, tracesNow)) { plotly(); return; }
      drawn = figure;
      ahead(true);
    };
    const ahead = (is) => {
      clearTimeout(behind);
      behind = is ? setTimeout(plotly, REST) : 0;
      root.classList.toggle("dp-ahead", is);
    };
    // Plotly names hatches and clips by the page's whole address, which changes with each step.
    const begin = () => {
      window.Plotly.newPlot(plot, [], { width, height: props.height }, CONFIG);
      plot._context._baseUrl = "";
    };
    const plotly = () => {
      const figure = chart.current;
      drawn = null;
      ahead(false);
      if (!figure) return;
      dp.unpatch(plot);
      const layout = figure.layout || {};
      const meta = layout.meta || {};
      const scale = dp.scale();
      // A figure with a width of its own keeps it, and its box scrolls.
      root.classList.toggle("dp-wide", !!layout.width);
      const own = layout.width ? layout.width * scale + "px" : "";
      if (plot.style.width !== own) {
        plot.style.width = own;
        width = 0;
      }
      width = width || plot.clientWidth;
      if (!width) { drawnWidth = 0; return; }  // hidden: the ResizeObserver paints when it is shown
      const shown = themedNow();
      const out = shown.layout;
      out.autosize = true;
      delete out.width;
      root.style.setProperty("--dp-height", (layout.height || props.height) / 16 + "rem");
      out.width = drawnWidth = width;
      if (meta.look != null && meta.look !== looked) {
        looked = meta.look;
        plot.parentNode.scrollLeft = Math.max(0, looked * scale - plot.parentNode.clientWidth);
      }
      if (!plot._context) begin();
      window.Plotly.react(plot, shown.data, out).then(wire);
      drawn = figure;
    };
    const soon = () => { if (!waiting) waiting = requestAnimationFrame(paint); };
    const anew = () => {
      drawn = null;
      soon();
    };
    root.addEventListener("pointerenter", () => { if (behind) plotly(); });

    const wire = () => {
      if (plot.dpWired) return;
      plot.dpWired = true;
      plot.on("plotly_click", (event) => {
        const point = event.points.find((p) => p.customdata != null) || event.points[0];
        if (!point) return;
        send({ customdata: plain(point.customdata) ?? null, trace: point.curveNumber,
               point: point.pointNumber ?? point.pointIndex ?? null, x: plain(point.x) ?? null,
               y: plain(point.y) ?? null, chart: id });
      });
    };

    chart.draw = (figure) => { chart.current = figure; soon(); };
    chart.update = (partial) => {
      if (!chart.current) return;
      const data = (chart.current.data || []).map((trace, i) => {
        const changes = (partial.traces || {})[trace.uid] || (partial.traces || {})[i];
        if (!changes) return trace;
        const copy = { ...trace };
        assign(copy, changes);
        return copy;
      });
      const layout = { ...chart.current.layout };
      assign(layout, partial.layout || {});
      const meta = { ...layout.meta };
      for (const key of ["title", "subtitle", "alt"]) if (key in partial) meta[key] = partial[key];
      chart.draw({ data, layout: { ...layout, meta } });
    };

    const receive = () => {
      const figure = dp.parse(props.value);
      if (!figure || figure.message != null) {
        if (figure && !dp.newer(chart, figure.seq)) return;
        chart.figure = chart.current = null;
        heading({});
        say((figure && figure.message) || props.empty || dp.word("chart_empty"));
        return;
      }
      if (!dp.newer(chart, figure.layout?.meta?.seq)) return;
      chart.figure = figure;
      chart.draw(figure);
    };

    new ResizeObserver(([entry]) => {
      width = Math.round(entry.contentRect.width);
      if (width && width !== drawnWidth) anew();
    }).observe(plot);
    const forget = dp.onLook(() => { if (root.isConnected) anew(); else forget(); });
    document.addEventListener("dp:language", () => { if (!props.value && root.isConnected) receive(); });
    if (dp.takeChart) dp.takeChart(chart, id);
    watch("value", receive);
    receive();
  };
})();
