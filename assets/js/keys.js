// Keys for the whole page, and the sheet that lists them.
//
// Out: "step" (right arrow), "back" (left arrow), "run" (space), "digit" {digit: 1..9}, "help" (?).
// A key is left alone while the reader types or moves a control, when a modifier is down, when a
// dialog is open, when another script took it, and when this element's tab is hidden.
(() => {
  if (!window.dp || dp.keys) return;

  const TYPING = "input,textarea,select,[contenteditable=true],[contenteditable='']";
  const CONTROLS = "button,a,summary,[role=tab],[role=button],[role=option],[role=slider],[role=radio]";
  const MOVABLE = "[role=tab],[role=slider],[role=radio],[role=listbox],[role=option],[role=menu]";
  const SHEET = [["→", "key_step"], ["←", "key_back"], ["1 – 9", "key_digit"], ["space", "key_run"],
                 ["?", "key_help"], ["Tab", "key_tab"]];

  const name = (event) => {
    if (event.key === "ArrowRight") return "step";
    if (event.key === "ArrowLeft") return "back";
    if (event.key === " ") return "run";
    if (event.key === "?") return "help";
    return /^[1-9]$/.test(event.key) ? "digit" : null;
  };
  const taken = (event, what) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return true;
    if (document.querySelector("dialog[open]")) return true;
    const at = event.target;
    if (!at.closest) return false;
    if (at.matches("input[type=range]")) return what === "step" || what === "back";
    if (at.closest(TYPING)) return true;
    if (what === "run" && at.closest(CONTROLS)) return true;
    return (what === "step" || what === "back") && !!at.closest(MOVABLE);
  };

  // The sheet belongs to the page, not to a tab, and is made when first asked for.
  dp.showKeys = () => {
    let sheet = document.getElementById("dp-keys-sheet");
    if (!sheet) {
      sheet = dp.el("dialog", "dp-sheet");
      sheet.id = "dp-keys-sheet";
      document.body.append(sheet);
      sheet.addEventListener("click", (event) => { if (event.target === sheet) sheet.close(); });
    }
    const close = dp.el("button", "dp-sheet-close", "×");
    close.type = "button";
    close.setAttribute("aria-label", dp.word("close"));
    close.addEventListener("click", () => sheet.close());
    const title = dp.el("h2", "dp-sheet-title", dp.word("keys_title"));
    title.id = "dp-keys-title";
    const table = dp.el("dl", "dp-sheet-keys");
    for (const [key, word] of SHEET) {
      const term = dp.el("dt");
      term.append(dp.el("kbd", "dp-kbd", key === "space" ? dp.word("key_space") : key));
      table.append(term, dp.el("dd", "", dp.word(word)));
    }
    sheet.setAttribute("aria-labelledby", title.id);
    sheet.replaceChildren(title, close, table);
    if (!sheet.open) sheet.showModal();
  };

  dp.keys = ({ element, send }) => {
    const listen = (event) => {
      if (!element.isConnected) { document.removeEventListener("keydown", listen); return; }
      if (!element.getClientRects().length) return;  // its tab is hidden
      const what = name(event);
      if (!what || taken(event, what)) return;
      event.preventDefault();
      if (what === "help") dp.showKeys();
      send[what](what === "digit" ? { digit: Number(event.key) } : {});
    };
    document.addEventListener("keydown", listen);
  };

  // A slider that was dragged has the arrows as long as the pointer is over it, and the other keys
  // go on; one that was reached with Tab keeps the focus.
  document.addEventListener("pointerup", (event) => {
    const slider = event.target.closest?.("input[type=range]");
    if (!slider) return;
    const leave = () => setTimeout(() => slider.blur(), 0);
    if (event.pointerType !== "mouse") { leave(); return; }
    slider.closest("[id^=dp-]")?.addEventListener("pointerleave", leave, { once: true });
  });
})();
