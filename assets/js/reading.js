// A text that was read: every token in its place, coloured and underlined by the bucket of its rank.
//
// In: props.value, one JSON string, see playground/ui/reading_text.py. Out: "pick" with {index}.
// A value with "from" above 0 goes on with the run that is shown; any other is shown anew.
// A token's text only ever becomes textContent: it can't be markup.
(() => {
  if (!window.dp || dp.reading) return;

  const COLUMNS = ["id", "text", "label", "p", "rank", "surprisal", "entropy", "top", "top_p"];
  // As playground/format.py writes them.
  const power = (p) => p.toExponential(1);
  const probability = (p) => {
    if (!(p > 0)) return "0";
    if (p >= 1) return "1";
    if (p >= 0.9995) return "1−" + power(1 - p);
    if (p >= 0.02) return p.toFixed(3);
    return p >= 0.001 ? p.toFixed(4) : power(p);
  };
  const count = (n) => n.toLocaleString("en");

  dp.reading = ({ element, props, watch, send }) => {
    const root = element.querySelector(".dp-read");
    const part = (name) => root.querySelector(name);
    const [title, subtitle, legend, box, list, empty, changed, tip] = [".dp-chart-title",
      ".dp-chart-subtitle", ".dp-read-legend", ".dp-read-box", ".dp-read-tokens", ".dp-read-empty",
      ".dp-read-changed", ".dp-tip"].map(part);
    const state = { seq: null, run: "", edges: [], columns: {} };
    // Whose text is shown: once another is typed, the old one says so.
    let read = null;
    const typed = () => document.querySelector("#dp-read-typed textarea")?.value;
    const compare = () => {
      const old = read !== null && list.firstChild && typed() !== read;
      root.classList.toggle("dp-read-old", Boolean(old));
      changed.textContent = old ? dp.word("read_changed") : "";
    };
    dp.readChanged = () => typed() !== read;
    document.addEventListener("input", (event) => {
      if (event.target.closest?.("#dp-read-typed")) compare();
    });
    tip.id = `dp-tip-read-${element.id || "text"}`;

    const bucket = (rank) => {
      if (!rank) return -1;
      const at = state.edges.findIndex((edge) => rank <= edge);
      return at < 0 ? state.edges.length : at;
    };
    // Four looks; the last bucket always takes the last one.
    const look = (at) => (at < 0 ? "" : at === state.edges.length ? 3 : Math.min(at, 2));
    const dress = (node, i) => { node.dataset.bucket = look(bucket(state.columns.rank[i])); };

    const make = (i) => {
      const text = state.columns.text[i];
      const node = dp.el("span", "dp-read-token", text || state.columns.label[i]);
      node.dataset.index = i;
      node.setAttribute("role", "button");
      node.tabIndex = -1;
      if (!text) node.classList.add("dp-read-part");
      if (/[\n\r]/.test(text)) node.classList.add("dp-read-break");
      dress(node, i);
      return node;
    };

    const showLegend = () => {
      const ranks = state.columns.rank || [];
      const counts = new Array(state.edges.length + 1).fill(0);
      for (const rank of ranks) if (rank) counts[bucket(rank)] += 1;
      const nodes = counts.map((n, at) => {
        const low = at ? state.edges[at - 1] + 1 : 1;
        const name = at === state.edges.length ? `> ${count(state.edges[at - 1] || 0)}`
          : low === state.edges[at] ? count(low) : `${count(low)}–${count(state.edges[at])}`;
        const item = dp.el("span", "dp-read-key");
        const sample = dp.el("span", "dp-read-token", name);
        sample.dataset.bucket = look(at);
        item.append(sample, dp.el("span", "dp-read-count", count(n)));
        return item;
      });
      legend.replaceChildren(dp.el("span", "dp-read-count", dp.word("strip_rank")), ...nodes);
    };

    const show = () => {
      const value = dp.parse(props.value);
      if (!value || !dp.newer(state, value.seq)) return;
      const from = value.from || 0;
      const length = list.children.length;
      if (from && (value.run !== state.run || from !== length)) return;  // the whole comes later
      const fresh = (value.id || []).length;
      if (value.title != null) title.textContent = value.title;
      if (value.subtitle != null) subtitle.textContent = value.subtitle;
      const recolour = JSON.stringify(value.edges || []) !== JSON.stringify(state.edges);
      state.edges = value.edges || [];
      if (state.run !== (value.run || "")) read = typed();
      state.run = value.run || "";
      for (const name of COLUMNS) {
        state.columns[name] = (from ? state.columns[name] : []).concat(value[name] || []);
      }
      const some = document.createDocumentFragment();
      for (let i = from; i < from + fresh; i++) some.append(make(i));
      if (from) {
        if (recolour) [...list.children].forEach(dress);
        list.append(some);
      } else {
        list.replaceChildren(some);
        box.scrollTop = 0;
      }
      if (list.firstChild && !list.querySelector('[tabindex="0"]')) list.firstChild.tabIndex = 0;
      list.setAttribute("aria-label", value.title || "");
      empty.textContent = list.children.length ? "" : value.empty || "";
      legend.hidden = !list.children.length;
      showLegend();
      compare();
      hide();
    };

    // --- tooltip, on hover and on focus
    const facts = (i) => {
      const c = state.columns;
      const rows = [[dp.word("strip_id"), String(c.id[i])]];
      if (!c.rank[i]) return [...rows, [dp.word("read_first"), ""]];
      const nats = c.surprisal[i];
      const bits = nats == null ? "∞" : `${nats.toFixed(3)} ${dp.word("nats")} = ${(nats / Math.LN2).toFixed(3)} ${dp.word("bits")}`;
      rows.push([dp.word("strip_p"), probability(c.p[i])], [dp.word("strip_rank"), count(c.rank[i])],
        [dp.word("strip_surprisal"), bits],
        [dp.word("read_entropy"), `${c.entropy[i].toFixed(3)} ${dp.word("nats")}`],
        [dp.word("read_expected"), `${c.top[i]} ${probability(c.top_p[i])}`]);
      return rows;
    };
    const hide = dp.tooltip(tip, list, ".dp-read-token", (node) => {
      const i = Number(node.dataset.index);
      const go = state.columns.rank[i] ? dp.word("read_go") : "";
      return { label: state.columns.label[i], facts: facts(i), go };
    });
    const token = (event) => event.target.closest?.(".dp-read-token");

    const pick = (node) => { hide(); send({ index: Number(node.dataset.index) }); };
    list.addEventListener("click", (event) => { if (token(event)) pick(token(event)); });
    // One stop for Tab, arrows move inside.
    list.addEventListener("keydown", (event) => {
      const node = token(event);
      if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") hide();
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(node); return; }
      const to = { ArrowRight: node.nextSibling, ArrowLeft: node.previousSibling,
                   Home: list.firstChild, End: list.lastChild }[event.key];
      if (to === undefined) return;
      event.preventDefault();  // also tells keys.js to leave this key alone
      if (!to) return;
      node.tabIndex = -1;
      to.tabIndex = 0;
      to.focus({ preventScroll: true });
      // Scrolls inside the box only: scrollIntoView would move the page.
      const top = to.offsetTop - list.offsetTop;
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + to.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + to.offsetHeight - box.clientHeight;
    });
    document.addEventListener("dp:language", () => { if (state.edges.length) showLegend(); hide(); });

    watch("value", show);
    show();
  };
})();
