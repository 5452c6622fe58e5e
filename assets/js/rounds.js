// The timeline of speculative rounds: a line per round, a button per token.
//
// In (props.value, one JSON string): {"title", "subtitle", "rounds": [{"name", "drafted": [{"label",
//   "fate", "place", "title"}], "next": the same or null, "note"}], "picked": [round, place] or null,
//   "empty", "seq"}; fate is accepted, rejected, untested, recovered or bonus.
// Out: the event "pick" with {round, place}.
// A token's text only ever becomes textContent: it can't be markup.
(() => {
  if (!window.dp || dp.rounds) return;

  dp.rounds = ({ element, props, watch, send }) => {
    const root = element.querySelector(".dp-rounds");
    const part = (name) => root.querySelector(name);
    const [title, subtitle, box, list, empty] =
      [".dp-chart-title", ".dp-chart-subtitle", ".dp-rounds-body", ".dp-rounds-list", ".dp-rounds-empty"].map(part);
    const state = { seq: null };

    const chip = (token, round) => {
      const button = dp.el("button", "dp-chip-token");
      button.type = "button";
      button.tabIndex = -1;
      button.dataset.fate = token.fate;
      button.dataset.round = round;
      button.dataset.place = token.place;
      button.title = token.title;
      button.setAttribute("aria-label", token.title);
      button.append(dp.el("span", "dp-chip-label", token.label));
      return button;
    };
    const line = (round, index) => {
      const row = dp.el("li", "dp-round");
      const drafted = dp.el("span", "dp-round-drafted");
      drafted.append(...round.drafted.map((token) => chip(token, index)));
      if (round.note) drafted.append(dp.el("span", "dp-round-note", round.note));
      const next = dp.el("span", "dp-round-next");
      if (round.next) next.append(chip(round.next, index));
      row.append(dp.el("span", "dp-round-name", round.name), drafted, next);
      row.dpKey = JSON.stringify(round);
      return row;
    };
    const chips = () => Array.from(list.querySelectorAll(".dp-chip-token"));

    const show = () => {
      const value = dp.parse(props.value) || {};
      if (!dp.newer(state, value.seq)) return;
      const rounds = value.rounds || [];
      const before = list.children.length;
      title.textContent = value.title || "";
      subtitle.textContent = value.subtitle || "";
      list.setAttribute("aria-label", value.title || "");
      rounds.forEach((round, i) => {
        const old = list.children[i];
        if (old && old.dpKey === JSON.stringify(round)) return;  // keeps the focus where it is
        const fresh = line(round, i);
        if (old) old.replaceWith(fresh); else list.append(fresh);
      });
      while (list.children.length > rounds.length) list.lastChild.remove();
      empty.textContent = rounds.length ? "" : value.empty || "";
      const [at, place] = value.picked || [];
      let picked = null;
      for (const button of chips()) {
        const on = Number(button.dataset.round) === at && Number(button.dataset.place) === place;
        button.setAttribute("aria-pressed", String(on));
        button.tabIndex = -1;
        if (on) picked = button;
      }
      const first = picked || chips()[0];
      if (first) first.tabIndex = 0;
      // Scrolls inside the box only: scrollIntoView would move the page.
      const node = picked ? picked.closest(".dp-round") : list.lastChild;
      if (!node) return;
      const top = node.offsetTop - list.offsetTop;
      if (rounds.length > before && list.lastChild) box.scrollTop = box.scrollHeight;
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + node.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + node.offsetHeight - box.clientHeight;
    };

    list.addEventListener("click", (event) => {
      const button = event.target.closest(".dp-chip-token");
      if (button) send({ round: Number(button.dataset.round), place: Number(button.dataset.place) });
    });
    // One stop for Tab, arrows move inside, Enter and space pick.
    list.addEventListener("keydown", (event) => {
      const all = chips();
      const at = all.indexOf(document.activeElement);
      if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
      const beside = (step) => {
        const round = Number(all[at].dataset.round) + step;
        return all.findIndex((button) => Number(button.dataset.round) === round);
      };
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: beside(1), ArrowUp: beside(-1),
                   Home: 0, End: all.length - 1 }[event.key];
      if (to == null) return;
      event.preventDefault();  // also tells keys.js to leave this key alone
      if (to < 0 || to >= all.length) return;
      all.forEach((button) => { button.tabIndex = -1; });
      all[to].tabIndex = 0;
      all[to].focus();
    });
    watch("value", show);
    show();
  };
})();
