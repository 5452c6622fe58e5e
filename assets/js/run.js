// A run: one step after another, each asked for by the page when the last one is painted. So Stop
// works at once, a browser that goes away stops its run, and a slow one is never flooded.
//
// In:  props.value {"end": bool, "length": tokens per run, "wait": ms between tokens, "seq": n}, the
//      answer to a tick. Out: the event "tick". dp.run.start(), dp.run.stop(), dp.run.on; while it
//      runs, body has the class dp-running. A runner with an elem_id is dp.runs[elem_id] instead, and
//      its class is dp-running-<elem_id>. A tick that gets no answer for a minute ends the run. The
//      event "rest" comes after a run was stopped by hand, when the answer under way is here.
(() => {
  if (!window.dp || dp.runner) return;
  dp.runs = {};
  dp.runner = ({ element, props, watch, send }) => {
    const name = props.name || "";
    const mark = "dp-running" + (name && "-" + name);
    const PATIENCE = 60000; // ms
    let timer = 0;
    let count = 0;
    let asked = 0;
    let open = false;   // a tick has no answer yet
    let stopped = false;
    const set = (on) => {
      run.on = on;
      document.body.classList.toggle(mark, on);
      clearTimeout(timer);
    };
    const tick = () => {
      if (!run.on) return;
      if (!element.isConnected) { set(false); return; }
      asked = performance.now();
      open = true;
      timer = setTimeout(() => { open = false; run.stop(); }, PATIENCE);
      send.tick({ count });
    };
    const rest = () => { stopped = false; send.rest({}); };
    const run = {
      on: false,
      start: () => { if (run.on) return; count = 0; stopped = false; set(true); tick(); },
      stop: () => {
        if (!run.on) return;
        set(false);
        if (open) stopped = true;
        else rest();
      },
    };
    dp.runs[name] = run;
    if (!name) dp.run = run;
    const state = { seq: null };
    watch("value", () => {
      const value = dp.parse(props.value);
      if (!value || !dp.newer(state, value.seq)) return;
      open = false;
      if (stopped) rest();
      if (!run.on) return;
      clearTimeout(timer);
      count += 1;
      if (value.end || count >= value.length) { set(false); return; }
      // After the paint of this answer, or a slow machine would fall behind its own run.
      requestAnimationFrame(() => {
        timer = setTimeout(tick, Math.max(0, value.wait - (performance.now() - asked)));
      });
    });
  };
})();
