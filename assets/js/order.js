// The filters that are on, in the order in which they run: chips to drag, or to move by the arrow
// keys or the buttons of the chip that has the focus.
//
// In:  props.value {"items": [{"name", "label"}], "custom": bool, "words": {"earlier", "later",
//      "reset", "none"}, "seq": n}. Out: the event "reorder" {"order": [names]}; an empty list asks for the
//      dialect's own order.
(() => {
  if (!window.dp || dp.order) return;
  dp.order = ({ element, props, watch, send }) => {
    const list = element.querySelector(".dp-order");
    const state = { seq: null };
    let names = [];
    let focus = null;  // the chip that keeps the focus after it was moved

    const move = (name, to) => {
      const from = names.indexOf(name);
      if (from < 0 || to < 0 || to >= names.length || to === from) return;
      const order = names.filter((n) => n !== name);
      order.splice(to, 0, name);
      focus = name;
      send({ order });
    };
    const chip = (item, index, words) => {
      const node = dp.el("li", "dp-order-item");
      node.draggable = true;
      const label = dp.el("button", "dp-order-name", item.label);
      label.type = "button";
      label.dataset.name = item.name;
      label.title = `${words.earlier} ← → ${words.later}`;
      label.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
        if (!step) return;
        event.preventDefault();
        event.stopPropagation();  // not the page's step and back
        move(item.name, index + step);
      });
      const arrow = (text, step, word) => {
        const button = dp.el("button", "dp-order-arrow", text);
        button.type = "button";
        button.setAttribute("aria-label", `${item.label}: ${word}`);
        button.disabled = index + step < 0 || index + step >= names.length;
        button.addEventListener("click", () => move(item.name, index + step));
        return button;
      };
      node.append(arrow("‹", -1, words.earlier), label, arrow("›", 1, words.later));
      node.addEventListener("dragstart", (event) => {
        event.dataTransfer.setData("text/plain", item.name);
        event.dataTransfer.effectAllowed = "move";
      });
      node.addEventListener("dragover", (event) => event.preventDefault());
      node.addEventListener("drop", (event) => {
        event.preventDefault();
        move(event.dataTransfer.getData("text/plain"), index);
      });
      return node;
    };
    const receive = () => {
      const value = dp.parse(props.value);
      if (!value || !dp.newer(state, value.seq)) return;
      names = value.items.map((item) => item.name);
      const nodes = value.items.map((item, i) => chip(item, i, value.words));
      if (!nodes.length) nodes.push(dp.el("li", "dp-hint", value.words.none));
      if (value.custom) {
        const reset = dp.el("button", "dp-order-reset", value.words.reset);
        reset.type = "button";
        reset.addEventListener("click", () => send({ order: [] }));
        const node = dp.el("li");
        node.append(reset);
        nodes.push(node);
      }
      list.replaceChildren(...nodes);
      if (focus) {
        list.querySelector(`[data-name="${CSS.escape(focus)}"]`)?.focus();
        focus = null;
      }
    };
    watch("value", receive);
    receive();
  };
})();
