// The page's ground: settings that outlive a visit (language, theme, projector size), words, and the
// registers in which charts and strips enter themselves. Loaded once; later loads do nothing.
//
//   dp.charts[elem_id], dp.strips[elem_id]   what chart.js and strip.js register
//   dp.language(), dp.setLanguage("zh")      "en" or "zh"
//   dp.word("strip_rank")                    a string of assets/words/components.yaml
//   dp.onLook(f)                             calls f when theme or size change
//   dp.newer(holder, seq)                    false for an answer older than the last one
(() => {
  if (window.dp) return;
  const dp = { charts: {}, strips: {} };
  window.dp = dp;

  dp.recall = (key) => {
    try { return localStorage.getItem("dp-" + key); } catch { return null; }
  };
  dp.remember = (key, value) => {
    try { localStorage.setItem("dp-" + key, value); } catch { /* private window: forget */ }
  };
  const asked = dp.asked = (name) => new URLSearchParams(location.search).get(name);

  // Language: the link's, else the remembered one, else the browser's.
  const known = (lang) => (lang ? (lang.toLowerCase().startsWith("zh") ? "zh" : "en") : null);
  let language = known(asked("lang")) || known(dp.recall("language")) || known(navigator.language) || "en";
  dp.language = () => language;
  dp.setLanguage = (lang) => {
    language = known(lang) || "en";
    dp.remember("language", language);
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
    gradioLanguage();
    document.dispatchEvent(new CustomEvent("dp:language", { detail: language }));
  };
  // Gradio's own strings (footer, errors). An internal of 6.31, so it may fail quietly.
  const gradioLanguage = async () => {
    try {
      const core = performance.getEntriesByType("resource").map((e) => e.name)
        .find((name) => /assets\/core-[^/]*\.js$/.test(name));
      if (core) await (await import(core)).changeLocale(language === "zh" ? "zh-CN" : "en");
    } catch { /* its strings stay as they are */ }
  };
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  dp.word = (key) => ((window.dpConfig || {}).words?.[language] || {})[key] || key;

  // Theme: Gradio's own switch, the class "dark" on body. A link's ?__theme= wins over the memory.
  dp.isDark = () => document.body.classList.contains("dark");
  dp.setDark = (on) => {
    document.body.classList.toggle("dark", on);
    dp.remember("theme", on ? "dark" : "light");
  };
  // Projector: everything is in rem, so the root's font size scales the page.
  dp.isLarge = () => document.documentElement.classList.contains("dp-large");
  dp.setLarge = (on) => {
    document.documentElement.classList.toggle("dp-large", on);
    dp.remember("size", on ? "large" : "normal");
  };
  // Read once for each size: reading it makes the browser lay the page out anew.
  const scales = {};
  dp.scale = () => {
    const key = `${dp.isLarge()} ${window.innerWidth}`;
    scales[key] ||= parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1;
    return scales[key];
  };

  const start = () => {
    const theme = dp.recall("theme");
    if (theme && !asked("__theme")) document.body.classList.toggle("dark", theme === "dark");
    if ((asked("size") || dp.recall("size")) === "large") {
      document.documentElement.classList.add("dp-large");
    }
    const watched = { attributes: true, attributeFilter: ["class"] };
    const look = () => `${dp.isDark()} ${dp.isLarge()}`;
    let last = look();
    const observer = new MutationObserver(() => {
      if (look() === last) return;  // another class: nothing looks different
      last = look();
      listeners.forEach((f) => f());
    });
    observer.observe(document.body, watched);
    observer.observe(document.documentElement, watched);
  };
  const listeners = new Set();
  dp.onLook = (f) => { listeners.add(f); return () => listeners.delete(f); };
  if (document.body) start(); else document.addEventListener("DOMContentLoaded", start);

  // The open tab: its controls are those with the class dp-on-<tab>.
  dp.showTab = (name) => {
    document.body.dataset.tab = name;
    document.dispatchEvent(new CustomEvent("dp:tab", { detail: name }));
  };

  dp.newer = (holder, seq) => {
    if (seq == null) return true;
    if (holder.seq != null && seq < holder.seq) return false;
    holder.seq = seq;
    return true;
  };
  // Parse a value that Python sent. A broken one shows nothing rather than an old state.
  dp.parse = (value) => {
    if (!value) return null;
    try { return typeof value === "string" ? JSON.parse(value) : value; } catch { return null; }
  };
  dp.el = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text != null) node.textContent = text;
    return node;
  };
  // Shows a tooltip at the tokens of a list, on hover and on focus; returns what hides it.
  // fill(node) -> {label, facts: [[name, text], ...], go: a last line or ""}, or nothing to show.
  dp.tooltip = (tip, list, selector, fill) => {
    const show = (node) => {
      const told = fill(node);
      if (!told) return;
      const table = dp.el("dl", "dp-tip-facts");
      for (const [name, text] of told.facts) table.append(dp.el("dt", "", name), dp.el("dd", "", text));
      tip.replaceChildren(dp.el("strong", "dp-tip-label", told.label), table);
      if (told.go) tip.append(dp.el("p", "dp-read-go", told.go));
      tip.classList.add("dp-shown");
      node.setAttribute("aria-describedby", tip.id);
      const at = node.getBoundingClientRect();
      const size = tip.getBoundingClientRect();
      const below = at.bottom + size.height + 8 < innerHeight;
      tip.style.left = Math.max(8, Math.min(at.left, innerWidth - size.width - 8)) + "px";
      tip.style.top = (below ? at.bottom + 6 : Math.max(8, at.top - size.height - 6)) + "px";
    };
    const hide = () => tip.classList.remove("dp-shown");
    const over = (event) => {
      const node = event.target.closest?.(selector);
      if (node) show(node);
    };
    list.addEventListener("pointerover", over);
    list.addEventListener("focusin", over);
    list.addEventListener("pointerleave", hide);
    list.addEventListener("focusout", hide);
    document.addEventListener("scroll", hide, { passive: true, capture: true });
    return hide;
  };
})();
