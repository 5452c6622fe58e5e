// A run: one step after another, each asked for by the page when the last one is painted. So Stop
// works at once, a browser that goes away stops its run, and a slow one is never flooded.
//
// In:  props.value {"end": bool, "length": tokens per run, "wait": ms between tokens, "seq": n}, the
//      answer to a tick. Out: the event "tick". dp.run.start(), dp.run.stop(), dp.run.on; while it
//      runs, body has the class dp-running.
(() => {
  if (!window.dp || dp.runner) return;
  dp.runner = ({ element, props, watch, send }) => {
    let timer = 0;
    let count = 0;
    let asked = 0;
    const set = (on) => {
      dp.run.on = on;
      document.body.classList.toggle("dp-running", on);
      clearTimeout(timer);
    };
    const tick = () => {
      if (!dp.run.on) return;
      if (!element.isConnected) { set(false); return; }
      asked = performance.now();
      send({ count });
    };
    dp.run = {
      on: false,
      start: () => { if (dp.run.on) return; count = 0; set(true); tick(); },
      stop: () => set(false),
    };
    const state = { seq: null };
    watch("value", () => {
      const value = dp.parse(props.value);
      if (!value || !dp.newer(state, value.seq) || !dp.run.on) return;
      count += 1;
      if (value.end || count >= value.length) { set(false); return; }
      // After the paint of this answer, or a slow machine would fall behind its own run.
      requestAnimationFrame(() => {
        timer = setTimeout(tick, Math.max(0, value.wait - (performance.now() - asked)));
      });
    });
  };
})();
