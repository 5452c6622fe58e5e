// The token strip: prompt and generated tokens as buttons, with what is known of each on hover.
//
// In (props.value, one JSON string): {"tokens": [{"id", "label", "kind": "prompt" | "new" | "special",
//   "p", "rank", "surprisal" (nats), "logprob", "source", "branch", "stale"}],
//   "cursor": n, "next": bool, "seq": n} - tokens from `cursor` on are shown faint (looked back),
//   "next" puts an empty place after the last, "first" is the place of the first token sent where
//   earlier ones were left out, "later" the number left out at the end; {"message": text} is an
//   empty state.
// Out: the event "pick" with {index, id}.
// A token's text only ever becomes textContent: it can't be markup.
(() => {
  if (!window.dp || dp.strip) return;

  const SPACE = { " ": "·", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽", "\u200b": "∅" };
  const visible = (text) => text.replace(/[ \n\r\t\u00a0\u200b]/g, (c) => SPACE[c]);
  const FULL = 7;  // nats at which the colour is strongest: about one in a thousand
  // As playground/format.py writes them.
  const power = (p) => p.toExponential(1);
  const probability = (p) => {
    if (!(p > 0)) return "0";
    if (p >= 1) return "1";
    if (p >= 0.9995) return "1−" + power(1 - p);
    if (p >= 0.02) return p.toFixed(3);
    return p >= 0.001 ? p.toFixed(4) : power(p);
  };
  const log = (x) => (x == null ? "−∞" : x.toFixed(3).replace("-", "−"));

  const facts = (token) => {
    const rows = [];
    const add = (name, value) => rows.push([dp.word(name), value]);
    add("strip_id", String(token.id));
    if (token.p != null) add("strip_p", probability(token.p));
    if (token.rank != null) add("strip_rank", token.rank.toLocaleString("en"));
    if (token.surprisal != null) {
      const nats = token.surprisal;
      add("strip_surprisal", isFinite(nats)
        ? `${nats.toFixed(3)} ${dp.word("nats")} = ${(nats / Math.LN2).toFixed(3)} ${dp.word("bits")}` : "∞");
    }
    if ("logprob" in token) add("strip_logprob", `${log(token.logprob)} ${dp.word("nats")}`);
    if (token.source && token.source !== "stale") add("strip_source", dp.word("source_" + token.source));
    if (token.branch) add("strip_branch", dp.word("yes"));
    if (token.stale) add("strip_stale", dp.word("yes"));
    return rows;
  };

  dp.strip = ({ element, props, watch, send }) => {
    const root = element.querySelector(".dp-strip");
    const list = root.querySelector(".dp-strip-tokens");
    const tip = root.querySelector(".dp-tip");
    const message = root.querySelector(".dp-strip-message");
    root.style.setProperty("--dp-lines", props.lines || 2);
    list.setAttribute("aria-label", dp.word("strip_name"));
    tip.id = `dp-tip-${props.name || element.id}`;
    const strip = { tokens: [], root, value: null, seq: null };
    dp.strips[props.name || element.id] = strip;
    let buttons = [];  // one per token; reused while the token's data stay the same
    let next = null;

    // --- buttons
    const make = (token) => {
      const button = dp.el("button", "dp-token", visible(token.label ?? ""));
      button.type = "button";
      button.tabIndex = -1;
      button.setAttribute("aria-describedby", tip.id);
      button.classList.add("dp-" + (["prompt", "special"].includes(token.kind) ? token.kind : "new"));
      if (token.special) button.classList.add("dp-special");
      if (token.branch) button.classList.add("dp-branch");
      if (token.stale) button.classList.add("dp-stale");
      if (token.source) button.dataset.source = token.source;
      if (token.surprisal != null) {
        const share = Math.min(1, token.surprisal / FULL);
        button.style.setProperty("--s", share.toFixed(3));
        button.style.setProperty("--u", (1 + Math.round(share * 4)) + "px");
        button.classList.add("dp-scored");
      }
      return button;
    };

    const render = () => {
      const value = dp.parse(props.value);
      if (value && !dp.newer(strip, value.seq)) return;
      const tokens = (value && value.tokens) || [];
      const empty = !tokens.length && !(value && value.next);
      message.textContent = empty ? (value && value.message) || props.empty || dp.word("strip_empty") : "";
      root.classList.toggle("dp-is-empty", empty);
      const first = (value && value.first) || 0;
      const focused = buttons.indexOf(document.activeElement);
      const made = tokens.map((token, i) => {
        const key = JSON.stringify(token);
        if (buttons[i] && buttons[i].dpKey === key) return buttons[i];
        const button = make(token);
        button.dpKey = key;
        return button;
      });
      list.querySelectorAll(".dp-more,.dp-next").forEach((node) => node.remove());
      made.forEach((button, i) => {
        button.dpIndex = i;
        if (list.children[i] !== button) list.insertBefore(button, list.children[i] || null);
      });
      while (list.children.length > made.length) list.lastChild.remove();
      next = null;
      if (value && value.next) {
        next = dp.el("span", "dp-next", "?");
        next.setAttribute("aria-label", dp.word("strip_next"));
        list.append(next);
      }
      if (first) list.prepend(more("strip_earlier", first));
      if (value && value.later) list.append(more("strip_later", value.later));
      const cursor = value && value.cursor != null ? value.cursor - first : tokens.length;
      made.forEach((button, i) => {
        button.classList.toggle("dp-ahead", i >= cursor);
        button.toggleAttribute("aria-current", false);
        if (i === cursor - 1 && cursor < tokens.length) button.setAttribute("aria-current", "step");
      });
      buttons = made;
      strip.tokens = tokens;
      strip.first = first;
      strip.value = value;
      rove(Math.min(focused >= 0 ? focused : cursor - 1, made.length - 1), focused >= 0);
      hide();
      scrollTo(cursor < tokens.length ? made[Math.max(0, cursor - 1)] : next || made[made.length - 1]);
    };

    const more = (word, n) =>
      dp.el("span", "dp-more", dp.word(word).replace("{n}", n.toLocaleString("en")));

    // Scrolls inside the strip only: scrollIntoView would move the page.
    const scrollTo = (node) => {
      if (!node) return;
      const top = node.offsetTop - list.offsetTop;
      const bottom = top + node.offsetHeight;
      if (bottom > list.scrollTop + list.clientHeight) list.scrollTop = bottom - list.clientHeight + 4;
      else if (top < list.scrollTop) list.scrollTop = top - 4;
    };

    // --- keyboard: one stop for Tab, arrows move inside
    const rove = (index, focus) => {
      buttons.forEach((button) => { button.tabIndex = -1; });
      const button = buttons[Math.max(0, index)];
      if (!button) return;
      button.tabIndex = 0;
      if (focus) { button.focus({ preventScroll: true }); scrollTo(button); }
    };
    list.addEventListener("keydown", (event) => {
      const at = buttons.indexOf(document.activeElement);
      if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
      if (event.key === "Escape") hide();
      if (to == null) return;
      event.preventDefault();  // also tells keys.js to leave this key alone
      rove(Math.min(Math.max(to, 0), buttons.length - 1), true);
    });
    list.addEventListener("click", (event) => {
      const button = event.target.closest(".dp-token");
      if (!button) return;
      send({ index: strip.first + button.dpIndex, id: strip.tokens[button.dpIndex].id });
    });

    // --- tooltip, on hover and on focus
    const hide = dp.tooltip(tip, list, ".dp-token", (button) => {
      const token = strip.tokens[button.dpIndex];
      return token && { label: visible(token.label ?? ""), facts: facts(token) };
    });
    list.addEventListener("scroll", hide);
    document.addEventListener("dp:language", () => {
      list.setAttribute("aria-label", dp.word("strip_name"));
      if (!strip.tokens.length) render();
      hide();
    });

    watch("value", render);
    render();
  };
})();
