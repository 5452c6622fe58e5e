// Small parts that only show what Python sent: figures, the explanation sentence, tables.
// Texts become textContent, so none of them can be markup.
(() => {
  if (!window.dp || dp.figures) return;

  const shower = (className, fill) => ({ element, props, watch, send }) => {
    const root = element.querySelector("." + className);
    const state = { seq: null, send: send || {} };
    const show = () => {
      const value = dp.parse(props.value);
      if (value && !dp.newer(state, value.seq)) return;
      fill(root, value || {}, state);
    };
    watch("value", show);
    show();
  };

  // {"items": [{"value", "label", "title", "tone"}]}
  dp.figures = shower("dp-figures", (root, value) => {
    root.replaceChildren(...(value.items || []).map((item) => {
      const box = dp.el("div", "dp-figure");
      if (item.tone) box.dataset.tone = item.tone;
      if (item.title) box.title = item.title;
      box.append(dp.el("dt", "dp-figure-label", item.label), dp.el("dd", "dp-figure-value", item.value));
      return box;
    }));
  });

  // {"parts": ["Drew ", {"token": "·Paris"}, ", ..."]}: tokens are set in mono.
  dp.sentence = shower("dp-sentence", (root, value, state) => {
    const key = JSON.stringify(value.parts || []);
    if (key === state.key) return;  // said again, a screen reader would repeat it
    state.key = key;
    root.replaceChildren(...(value.parts || []).map((part) =>
      (typeof part === "string" ? document.createTextNode(part) : dp.el("code", "dp-token-text", part.token))));
    root.classList.toggle("dp-is-empty", !(value.parts || []).length);
  });

  // {"columns": [{"label", "kind": "text" | "number" | "token"}], "rows": [{"cells": [...], "id", "tone"}]}
  dp.table = shower("dp-table", (root, value, state) => {
    const columns = value.columns || [];
    const kind = (i) => "dp-cell-" + ((columns[i] || {}).kind || "text");
    const head = dp.el("tr");
    columns.forEach((column, i) => {
      const cell = dp.el("th", kind(i), column.label);
      cell.scope = "col";
      if (column.title) cell.title = column.title;
      head.append(cell);
    });
    const body = dp.el("tbody");
    for (const row of value.rows || []) {
      const line = dp.el("tr");
      if (row.tone) line.dataset.tone = row.tone;
      row.cells.forEach((cell, i) => line.append(dp.el("td", kind(i), cell)));
      if (row.id != null) {
        line.tabIndex = 0;
        line.classList.add("dp-row-link");
        const pick = () => state.send({ id: row.id });
        line.addEventListener("click", pick);
        line.addEventListener("keydown", (event) => { if (event.key === "Enter") pick(); });
      }
      body.append(line);
    }
    const top = dp.el("thead");
    top.append(head);
    const table = dp.el("table");
    if (value.caption) table.append(dp.el("caption", value.heading ? "dp-heading" : "dp-hidden", value.caption));
    table.append(top, body);
    root.replaceChildren(table);
    root.classList.toggle("dp-is-empty", !(value.rows || []).length);
  });
})();
