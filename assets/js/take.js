// Takes a chart away: a quiet button at its top right, with SVG, PNG and a page of its own (HTML).
//
// Everything is made in the browser. The files have the light or dark look of the page and the title
// that the page draws beside the plot; the HTML file holds plotly.js and needs nothing else.
(() => {
  if (!window.dp || dp.takeChart) return;

  const color = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
  const safe = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  const wrapped = (text, width, letter) => {
    const most = Math.max(12, Math.floor(width / letter));
    const cells = (word) => [...word].reduce((n, c) => n + (c > "\u2e80" ? 2 : 1), 0);
    const lines = [""];
    for (const word of text.split(/(?<=\s)|(?<=[\u2e80-\uffef])/)) {
      const line = lines[lines.length - 1];
      if (line && cells(line) + cells(word.trimEnd()) > most) lines.push(word);
      else lines[lines.length - 1] = line + word;
    }
    return lines.map((line) => safe(line.trim())).filter(Boolean);
  };

  // The drawn figure with its title above it and a ground, as plain data.
  const picture = (chart) => {
    const { data, layout } = chart.shown();
    const meta = layout.meta || {};
    const width = Math.round(chart.plot.clientWidth);
    const height = Math.round(layout.height);
    const scale = dp.scale();
    const title = wrapped(meta.title || "", width - 24, 8.5 * scale);
    const subtitle = wrapped(meta.subtitle || "", width - 24, 6.2 * scale);
    const above = ((title.length + subtitle.length) * 21 + (title.length ? 24 : 0)) * scale;
    const margin = { l: 48, r: 16, t: 8, b: 32, ...layout.margin };
    const text = [
      title.length ? `<b>${title.join("<br>")}</b>` : "",
      subtitle.length ? `<span style="font-size:${12 * scale}px;color:${color("--dp-muted")}">${subtitle.join("<br>")}</span>` : "",
    ].filter(Boolean).join("<br>");
    return {
      data,
      width,
      height: height + above,
      layout: {
        ...layout,
        width, height: height + above, autosize: false,
        margin: { ...margin, t: margin.t + above },
        paper_bgcolor: color("--dp-paper"),
        plot_bgcolor: color("--dp-paper"),
        title: { text, x: 0, xref: "container", pad: { l: 8, t: 22 * scale }, y: 1, yref: "container",
                 yanchor: "top", font: { size: 16 * scale, color: color("--dp-ink") } },
      },
    };
  };

  const page = async (made, name) => {
    const source = [...document.querySelectorAll("script[src]")].find((s) => /plotly[^/]*\.js/.test(s.src));
    const library = await (await fetch(source.src)).text();
    // "</script" would end the script early; inside JSON "<" can be written so.
    const json = (value) => JSON.stringify(value).replace(/</g, "\\u003c").replace(/\u2028|\u2029/g, "");
    const layout = { ...made.layout, width: undefined, autosize: true };
    return [`<!DOCTYPE html><html lang="${dp.language()}"><head><meta charset="utf-8">`,
      `<meta name="viewport" content="width=device-width"><title>${safe(name)}</title>`,
      `<style>body{margin:0;padding:16px;background:${color("--dp-paper")}}</style>`,
      "<script>", library.replace(/<\/script/gi, "<\\/script"), "</script></head><body>",
      `<div id="chart"></div><script>Plotly.newPlot("chart", ${json(made.data)}, ${json(layout)},`,
      " {displaylogo: false, responsive: true});</script></body></html>"];
  };

  // Called once per chart. ``chart.shown()`` gives what is drawn, themed, with its meta.
  dp.takeChart = (chart, id) => {
    const box = dp.el("div", "dp-chart-take");
    const open = dp.el("button", "dp-chart-take-open", "⤓");
    open.type = "button";
    open.setAttribute("aria-haspopup", "true");
    const menu = dp.el("div", "dp-chart-take-menu");
    const name = () => (id || "chart").replace(/^dp-/, "") + "-chart";
    const say = () => {
      open.title = dp.word("take_chart");
      open.setAttribute("aria-label", dp.word("take_chart"));
    };
    const show = (on) => {
      box.classList.toggle("dp-open", on);
      open.setAttribute("aria-expanded", String(on));
    };
    const kinds = {
      svg: () => window.Plotly.toImage(picture(chart), { format: "svg", ...size() }).then((url) =>
        dp.save(name() + ".svg", "image/svg+xml", [decodeURIComponent(url.slice(url.indexOf(",") + 1))])),
      png: () => window.Plotly.toImage(picture(chart), { format: "png", scale: 2, ...size() })
        .then((url) => fetch(url)).then((got) => got.blob()).then((blob) => dp.save(name() + ".png", "image/png", [blob])),
      html: () => page(picture(chart), name()).then((parts) => dp.save(name() + ".html", "text/html", parts)),
    };
    const size = () => { const made = picture(chart); return { width: made.width, height: made.height }; };
    for (const [kind, make] of Object.entries(kinds)) {
      const item = dp.el("button", "dp-chart-take-kind", kind.toUpperCase());
      item.type = "button";
      item.dataset.kind = kind;
      item.addEventListener("click", async () => {
        show(false);
        open.focus();
        if (chart.current && window.Plotly) await make();
      });
      menu.append(item);
    }
    box.append(open, menu);
    chart.root.append(box);
    open.addEventListener("click", () => show(!box.classList.contains("dp-open")));
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { show(false); open.focus(); }
    });
    box.addEventListener("focusout", (event) => { if (!box.contains(event.relatedTarget)) show(false); });
    document.addEventListener("dp:language", say);
    say();
    show(false);
  };
})();
