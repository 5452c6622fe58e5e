// Decoders side by side: a head to choose and set each, and its text, which grows downward.
//
// In (props.value, one JSON string): see playground/ui/decks.py. Out: the events "edit" with all decks
//   as they are set now, and "prove" with {index}.
// A token's text only ever becomes textContent: it can't be markup. Heads are built anew only when
// what they show has changed, so that a number can be typed while texts grow.
(() => {
  if (!window.dp || dp.decks) return;

  dp.decks = ({ element, props, watch, send }) => {
    const root = element.querySelector(".dp-decks");
    const state = { seq: null };
    let shown = { decks: [] };
    const running = () => !!(dp.runs && dp.runs[props.runner] && dp.runs[props.runner].on);

    // What the heads say now; a kind that was changed brings its own settings.
    const read = () => Array.from(root.querySelectorAll(".dp-deck:not([data-human])")).map((deck) => {
      const kind = deck.querySelector(".dp-deck-kind").value;
      const settings = {};
      if (kind === deck.dataset.kind) {
        deck.querySelectorAll("[data-field]").forEach((input) => {
          settings[input.dataset.field] = input.type === "number" ? Number(input.value) : input.value;
        });
      }
      return { kind, settings };
    });
    const edit = (change) => {
      if (running()) { draw(true); return; }  // the run's answers would undo it
      const decks = read();
      if (change) change(decks);
      send.edit({ decks });
    };

    const select = (options, value, label) => {
      const box = dp.el("select");
      box.title = label;
      box.setAttribute("aria-label", label);
      for (const [id, word] of options) {
        const option = dp.el("option", "", word);
        option.value = id;
        box.append(option);
      }
      box.value = value;
      box.addEventListener("change", () => edit());
      return box;
    };
    const setting = (item) => {
      const line = dp.el("label", "dp-deck-setting");
      line.append(dp.el("span", "", item.label));
      line.title = item.title || item.label;
      let input;
      if (item.options) input = select(item.options, item.value, item.label);
      else {
        input = dp.el("input");
        input.type = "number";
        input.min = item.low;
        input.max = item.high;
        input.step = item.step;
        input.value = item.value;
        input.addEventListener("change", () => edit());
      }
      input.dataset.field = item.field;
      line.append(input);
      return line;
    };
    const head = (deck, value, count) => {
      const top = dp.el("div", "dp-deck-head");
      const words = value.words;
      const kind = select(value.kinds, deck.kind, words.kind);
      kind.classList.add("dp-deck-kind");
      top.append(kind);
      const remove = dp.el("button", "dp-deck-remove", "×");
      remove.type = "button";
      remove.title = words.remove;
      remove.setAttribute("aria-label", words.remove + ": " + deck.name);
      remove.disabled = count <= value.least;
      remove.addEventListener("click", () => {
        const index = Array.from(root.children).indexOf(top.parentNode);
        edit((decks) => decks.splice(index, 1));
      });
      top.append(remove);
      const settings = dp.el("div", "dp-deck-settings");
      settings.append(...deck.settings.map(setting));
      top.append(settings);
      return top;
    };
    const column = (human) => {
      const box = dp.el("section", "dp-deck");
      if (human) box.dataset.human = "";
      const text = dp.el("div", "dp-deck-text");
      text.append(dp.el("p", "dp-deck-words"));
      text.tabIndex = 0;
      const foot = dp.el("div", "dp-deck-foot");
      foot.append(dp.el("span", "dp-deck-note"));
      if (!human) {
        const prove = dp.el("button", "dp-deck-prove");
        prove.type = "button";
        prove.addEventListener("click", () => send.prove({ index: Array.from(root.children).indexOf(box) }));
        foot.append(prove);
      }
      box.append(text, foot);
      return box;
    };
    const fill = (box, deck, value, count, anew) => {
      const human = "human" in box.dataset;
      const key = JSON.stringify([deck.kind, deck.name, deck.settings, value.kinds, value.words, count <= value.least]);
      if (anew || box.dpKey !== key) {
        const fresh = human ? dp.el("div", "dp-deck-head dp-deck-human", deck.name) : head(deck, value, count);
        const old = box.querySelector(".dp-deck-head");
        if (old) old.replaceWith(fresh); else box.prepend(fresh);
        box.dpKey = key;
      }
      box.setAttribute("aria-label", deck.name);
      box.dataset.kind = deck.kind || "";
      box.dataset.tone = deck.tone || "ink";
      const texts = JSON.stringify(deck.parts);
      if (box.dpText !== texts) {
        box.dpText = texts;
        box.querySelector(".dp-deck-words").replaceChildren(...(deck.parts || []).map((part) =>
          (typeof part === "string" ? document.createTextNode(part) : dp.el("mark", "dp-deck-repeat", part.token))));
      }
      box.querySelector(".dp-deck-note").textContent = deck.note || "";
      const prove = box.querySelector(".dp-deck-prove");
      if (prove) {
        prove.textContent = value.words.prove;
        prove.hidden = !deck.proof;
      }
    };
    const draw = (anew) => {
      const value = shown;
      const decks = value.decks || [];
      root.classList.toggle("dp-is-empty", !decks.length);
      if (!decks.length) { root.replaceChildren(dp.el("p", "dp-decks-empty", value.message || "")); return; }
      root.querySelectorAll(".dp-decks-empty, .dp-deck-add").forEach((node) => node.remove());
      const own = Array.from(root.querySelectorAll(".dp-deck:not([data-human])"));
      while (own.length > decks.length) own.pop().remove();
      const theirs = root.querySelector(".dp-deck[data-human]");
      while (own.length < decks.length) {
        const box = column(false);
        root.insertBefore(box, theirs);
        own.push(box);
      }
      decks.forEach((deck, i) => fill(own[i], deck, value, decks.length, anew));
      if (value.human) {
        const box = theirs || column(true);
        if (!theirs) root.append(box);
        fill(box, value.human, value, decks.length, anew);
      } else if (theirs) theirs.remove();
      if (decks.length < value.most) {
        const add = dp.el("button", "dp-deck-add", "+ " + value.words.add);
        add.type = "button";
        add.addEventListener("click", () => edit((all) => all.push({ kind: "sampling", settings: {} })));
        root.append(add);
      }
    };
    const show = () => {
      const value = dp.parse(props.value);
      if (!value || !dp.newer(state, value.seq)) return;
      const refused = value.again;
      shown = value;
      draw(refused);
    };
    watch("value", show);
    show();
  };
})();
