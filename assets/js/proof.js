// The proof sheet: a script that computes a run anew, to copy or download, and the one generate() call.
//
// In (props.value, one JSON string): see playground/ui/proof.py. A new value opens the sheet.
// All texts become textContent: none can be markup.
(() => {
  if (!window.dp || dp.proof) return;

  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); return true; } catch { /* no secure context */ }
    const field = dp.el("textarea");
    field.value = text;
    (document.querySelector("dialog[open]") || document.body).append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  };
  const save = (name, text) => {
    const url = URL.createObjectURL(new Blob([text], { type: "text/x-python" }));
    const link = dp.el("a");
    link.href = url;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  };
  const button = (text, className, act) => {
    const made = dp.el("button", className, text);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  };
  const copier = (text, words, source) => {
    const made = button(text, "dp-proof-button", async () => {
      if (!(await copy(source))) return;
      made.textContent = words.copied;
      setTimeout(() => { made.textContent = text; }, 1500);
    });
    return made;
  };
  const code = (text) => {
    const box = dp.el("pre", "dp-proof-code");
    box.tabIndex = 0;
    box.append(dp.el("code", "", text));
    return box;
  };

  const open = (value) => {
    const words = value.words;
    const sheet = dp.el("dialog", "dp-sheet dp-proof");
    const title = dp.el("h2", "dp-sheet-title", value.title);
    title.id = "dp-proof-title";
    sheet.setAttribute("aria-labelledby", title.id);
    const close = button("×", "dp-sheet-close", () => sheet.close());
    close.setAttribute("aria-label", words.close);
    const bar = dp.el("div", "dp-proof-bar");
    bar.append(copier(words.copy, words, value.script),
               button(words.download, "dp-proof-button", () => save(value.file, value.script)));
    sheet.append(title, close, dp.el("p", "dp-proof-about", value.about), bar, code(value.script));
    sheet.append(dp.el("h3", "dp-proof-title", words.call));
    if (value.call) {
      const row = dp.el("div", "dp-proof-bar");
      row.append(copier(words.copy_call, words, value.call));
      sheet.append(row, code(value.call));
    } else sheet.append(dp.el("p", "dp-proof-about", words.no_call));
    const notes = dp.el("ul", "dp-proof-notes");
    notes.append(...(value.notes || []).map((note) => dp.el("li", "", note)));
    sheet.append(notes);
    document.body.append(sheet);
    sheet.addEventListener("click", (event) => { if (event.target === sheet) sheet.close(); });
    sheet.addEventListener("close", () => sheet.remove());
    sheet.showModal();
  };

  dp.proof = ({ props, watch }) => {
    const state = { seq: null };
    watch("value", () => {
      const value = dp.parse(props.value);
      if (!value || !value.script || (state.seq != null && value.seq <= state.seq)) return;
      state.seq = value.seq;
      open(value);
    });
  };
})();
