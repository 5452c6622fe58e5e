// The tools at the top right: language, theme, projector size, share, keys.
//
// In (props.value): {"query": "state=..."}, the permalink's query; with the open tab and the language
// it goes into the address bar, so that a reload loses nothing; or {"view": {tab: link}}, the part of
// a tab that isn't Sample. Out: "language" {language}, "shared" {url} ("share" is Gradio's own),
// "help"; "beam_link" {} asks for that tab's part, "beam_look" {link} shows one; and the open tab's
// name: see dp.refresh.
(() => {
  if (!window.dp || dp.toolbar) return;
  const RESTS = 1000;  // ms without a change
  const PATIENCE = 60000;  // ms after which a link's tab counts as not coming

  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); return true; } catch { /* plain http */ }
    const area = dp.el("textarea", "dp-hidden", text);
    document.body.append(area);
    area.select();
    let done = false;
    try { done = document.execCommand("copy"); } catch { done = false; }
    area.remove();
    return done;
  };
  // Where neither way may write to the clipboard, the reader copies by hand.
  const showLink = (url) => {
    const sheet = dp.el("dialog", "dp-sheet");
    const field = dp.el("input", "dp-sheet-link");
    field.readOnly = true;
    field.value = url;
    field.setAttribute("aria-label", dp.word("share_title"));
    sheet.append(dp.el("h2", "dp-sheet-title", dp.word("share_title")), field);
    document.body.append(sheet);
    sheet.addEventListener("click", (event) => { if (event.target === sheet) sheet.close(); });
    sheet.addEventListener("close", () => sheet.remove());
    sheet.showModal();
    field.select();
  };

  let coming = "";  // the address's tab, until it is open
  const opened = () => coming || document.body.dataset.tab || dp.asked("tab") || "sample";
  const link = ({ query, views }) => {
    const url = new URL(location.href);
    for (const [key, value] of new URLSearchParams(query || "")) url.searchParams.set(key, value);
    const tab = opened();
    url.searchParams.set("tab", tab);
    url.searchParams.set("lang", dp.language());
    if (views[tab]) url.searchParams.set("view", views[tab]);
    else url.searchParams.delete("view");
    return url.href;
  };
  const address = (state) => {
    const url = new URL(link(state));
    try { history.replaceState(history.state, "", url); } catch { return; }
    // A Space shows the page in a frame of huggingface.co, which keeps its own address.
    if (window.parent !== window) {
      window.parent.postMessage({ queryString: url.search, hash: url.hash }, "https://huggingface.co");
    }
  };

  // The address's tab, opened once there is a session to show in it.
  const tabOf = (name) =>
    document.querySelector(`[role=tab][data-tab-id="${CSS.escape(name || "none")}"]`);
  const openTab = (name) => {
    const tab = tabOf(name);
    if (!tab || tab.getAttribute("aria-selected") === "true") return;
    coming = name;
    tab.click();
  };

  // A session too long for an address must not leave an older one's there.
  const forget = () => {
    const url = new URL(location.href);
    for (const name of ["state", "view"]) url.searchParams.delete(name);
    try { history.replaceState(history.state, "", url); } catch { /* in a frame: it keeps its own */ }
  };

  dp.toolbar = ({ element, props, watch, send }) => {
    const root = element.querySelector(".dp-tools");
    const button = (name) => root.querySelector(`[data-tool=${name}]`);
    const state = { query: "", views: {}, seq: null };
    const seen = { seq: null };  // of the views

    const label = () => {
      const zh = dp.language() === "zh";
      button("language").querySelector(".dp-en").classList.toggle("dp-on", !zh);
      button("language").querySelector(".dp-zh").classList.toggle("dp-on", zh);
      for (const name of ["language", "theme", "size", "help"]) {
        button(name).title = dp.word("tool_" + name);
        button(name).setAttribute("aria-label", dp.word("tool_" + name));
      }
      button("size").querySelector("span").textContent = dp.word("tool_size_short");
      button("share").textContent = dp.word("tool_share");
      button("share").title = dp.word("share_title");
      button("theme").setAttribute("aria-pressed", dp.isDark());
      button("size").setAttribute("aria-pressed", dp.isLarge());
    };
    const share = async () => {
      await told();
      const url = link(state);
      address(state);
      if (await copy(url)) {
        button("share").textContent = dp.word("share_copied");
        setTimeout(label, 1600);
      } else showLink(url);
      send.shared({ url });
    };
    root.addEventListener("click", (event) => {
      const tool = event.target.closest("[data-tool]")?.dataset.tool;
      if (tool === "language") {
        // A language's own name chooses it; a key, or the space between, the other one.
        const asked = event.target.closest(".dp-en") ? "en" : event.target.closest(".dp-zh") ? "zh" : "";
        if (asked === dp.language()) return;
        dp.setLanguage(dp.language() === "zh" ? "en" : "zh");
        send.language({ language: dp.language() });
      } else if (tool === "theme") dp.setDark(!dp.isDark());
      else if (tool === "size") dp.setLarge(!dp.isLarge());
      else if (tool === "share") share();
      else if (tool === "help") { dp.showKeys?.(); send.help({}); }
    });
    const receive = () => {
      const value = dp.parse(props.value);
      if (!value || !dp.newer(value.view ? seen : state, value.seq)) return;
      if (value.view) {
        Object.assign(state.views, value.view);
        answered();
        if (state.query) address(state);
        return;
      }
      const first = !state.query;
      state.query = value.query || "";
      if (first) {
        look(dp.asked("tab"), dp.asked("view"));
        openTab(dp.asked("tab"));
      }
      if (state.query) address(state);
      else if (value.query === "") forget();
    };

    // --- the open tab's part of the link: asked for when what the tab shows has changed, and rests
    let resting = 0, looking = "", answered = () => {};
    const tell = () => {
      clearTimeout(resting);
      resting = 0;
      if (looking) return;  // what it shows is still on its way, and will be told of then
      if (opened() !== "sample" && state.query) send[`${opened()}_link`]?.({});
    };
    const changed = () => {
      if (opened() === "sample") return;
      clearTimeout(resting);
      resting = setTimeout(tell, RESTS);
    };
    const told = () => !resting || looking ? null : Promise.race([
      new Promise((done) => { answered = done; tell(); }),
      new Promise((done) => setTimeout(done, 2000)),
    ]);
    const hovers = (node) => (node.closest ? node : node.parentElement)?.closest(".hoverlayer, .dp-tip");
    const observer = new MutationObserver((all) => {
      if (all.some((one) => !hovers(one.target))) changed();
    });
    const tabs = document.querySelector(".dp-tabs");
    if (tabs) observer.observe(tabs, { childList: true, characterData: true, subtree: true });
    document.addEventListener("change", changed, true);
    const wait = (tab) => {
      looking = tab;
      dp.busy?.opening(!!tab);
    };
    // A step made meanwhile would be undone by the answer: the tab takes none.
    const hold = (event) => {
      if (!looking || looking !== opened() || !event.target.closest) return;
      const key = event.type === "keydown" && event.key !== "Tab";
      if (key ? event.target.closest("input,textarea,select,dialog")
        : !event.target.closest("[role=tabpanel]")) return;
      event.preventDefault();
      event.stopImmediatePropagation();
    };
    for (const name of ["click", "keydown"]) document.addEventListener(name, hold, true);
    // Asked for when the values of the first answer are in the page.
    const look = (tab, part) => {
      if (!tabOf(tab) || tab === "sample" || !part) { wait(""); return; }
      state.views[tab] = part;
      wait(tab);
      setTimeout(() => send[`${tab}_look`]?.({ link: part }), 100);
      setTimeout(() => dp.refresh(true), PATIENCE);
    };
    document.addEventListener("dp:language", label);
    // Asks for the open tab's parts anew. The hidden ones wait until they are opened, and all until
    // a link's tab is set up: an answer with the state before would undo it.
    dp.refresh = (looked) => {
      if (looked && looking) {
        wait("");
        changed();  // a refused part must not stay in the address
      }
      if (!looking) send[document.body.dataset.tab]?.({});
    };
    document.addEventListener("dp:tab", () => {
      coming = "";
      if (state.query) address(state);
      dp.refresh();
    });
    dp.onLook(label);
    dp.busy?.opening(!!dp.asked("view"));
    watch("value", receive);
    receive();
    label();

    // The tabs lie between brand and tools; the controls of a phone start closed.
    const room = () => document.documentElement.style.setProperty(
      "--dp-tools-width", `calc(${root.offsetWidth}px + 2rem)`);
    new ResizeObserver(room).observe(root);
    // On a busy machine the panel may open after this: look again for a while.
    const ready = () => requestAnimationFrame(() => document.documentElement.classList.add("dp-ready"));
    const tuck = (tries) => {
      const open = document.querySelector(".dp-sidebar.open .toggle-button");
      if (open) open.click();
      if (open || !tries) ready();
      else setTimeout(() => tuck(tries - 1), 50);
    };
    if (innerWidth <= 768) tuck(40);
    else ready();
  };
})();
