// Buttons that take a run away as a file; see playground/ui/files.py for the value.
//
// dp.save(name, mime, parts) gives the reader a file.
(() => {
  if (!window.dp || dp.files) return;

  dp.save = (name, mime, parts) => {
    const url = URL.createObjectURL(new Blob(parts, { type: mime }));
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  };

  dp.files = ({ element, props, watch, send }) => {
    const root = element.querySelector(".dp-files");
    const kinds = props.kinds.split("-").filter(Boolean);
    const state = { seq: null, sure: {} };
    const name = dp.el("span", "dp-files-name");
    const buttons = {};
    const word = (kind) => dp.word("take_" + kind);
    for (const kind of kinds) {
      const button = dp.el("button", "dp-file");
      button.type = "button";
      button.addEventListener("click", () => {
        const sure = !!state.sure[kind];
        calm();
        send({ kind, sure });
      });
      buttons[kind] = button;
    }
    // A size that was said holds for the next press only.
    const calm = () => {
      state.sure = {};
      name.textContent = dp.word("take");
      root.setAttribute("aria-label", dp.word("take"));
      for (const kind of kinds) {
        buttons[kind].textContent = word(kind);
        buttons[kind].title = dp.word("take_" + kind + "_info");
        buttons[kind].classList.remove("dp-sure");
      }
    };
    root.append(name, ...Object.values(buttons));
    calm();

    watch("value", () => {
      const value = dp.parse(props.value);
      if (!value || (state.seq != null && value.seq <= state.seq)) return;
      state.seq = value.seq;
      if (value.file) {
        const text = atob(value.file.data);
        const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
        dp.save(value.file.name, value.file.mime, [bytes]);
      }
      if (value.offer && buttons[value.kind]) {
        state.sure = { [value.kind]: true };
        buttons[value.kind].textContent = value.offer;
        buttons[value.kind].classList.add("dp-sure");
      }
    });
    document.addEventListener("dp:language", calm);
  };
})();
