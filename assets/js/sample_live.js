// The Sample view's sliders, live: the browser previews while they move, Python settles the rest.
//
// In: the step's payload (playground/ui/live.py), native input events of the sliders; out: changes
// to the bars and the dice, and the event "settle" when the sliders rest on other values than
// Python's last answer had.
//
//   dp.live(...)     starts it (called once per mount)
//   dp.live.state    {value, wanted(), waiting}: what Python sent last, what the sliders say now
//
// An answer that was asked for before the last movement must not be seen: its charts are previewed
// over at once, in the same frame, and the settled numbers of the last movement are asked for. So
// the page always shows the sliders' own values, and ends on Python's exact ones.
(() => {
  if (!window.dp || dp.live) return;
  const REST = 60;  // ms without a movement after which a slider rests
  const DRAG = 150;  // ms between two movements of a drag at most
  const PATIENCE = 3000;  // ms after which a request counts as lost
  const CHARTS = { "dp-bars": "bars", "dp-dice": "dice" };
  const word = (key) => dp.word(`sample.${key}`);
  const same = (a, b) => a === b || (typeof a === "number" && Math.abs(a - b) < 1e-9);

  // A slider's number field has the value that Python gets (its range stops at the ends).
  const read = (field) => {
    const box = document.getElementById(`dp-${field}`);
    const input = box?.querySelector("input[type=number]") || box?.querySelector("input[type=range]");
    return input && input.value !== "" ? Number(input.value) : null;
  };

  dp.live = ({ props, watch, send }) => {
    dp.live.stop?.();
    const holder = { seq: null };
    let value = null;      // Python's last answer: {payload, params, live}
    let moved = false;     // a slider was moved, and no answer had its values yet
    let over = false;      // the charts show a preview, not that answer
    let asked = 0;         // how often the present values were asked for
    let sent = -Infinity;  // when the request that is under way was sent
    let just = null;       // [field, value] of the movement that is being handled
    let at = -Infinity;    // when the last movement was
    let frame = 0, dirty = false, timer = 0;

    const wanted = () => {
      const params = { ...value.params };
      for (const field in params) {
        if (typeof params[field] !== "number") continue;
        const now = just && just[0] === field ? just[1] : read(field);
        if (now !== null && Number.isFinite(now)) params[field] = now;
      }
      return params;
    };
    const answered = (params) => Object.keys(params).every((k) => same(params[k], value.params[k]));
    const ready = () => value?.payload && value.live !== false;

    const preview = () => {
      dirty = false;
      const params = wanted();
      over = !answered(params);
      if (!over) {  // moved to where Python's numbers are
        for (const id in CHARTS) if (dp.charts[id]?.figure) dp.charts[id].draw(dp.charts[id].figure);
        return;
      }
      const view = dp.preview(value.payload, params);
      if (!view.exact) return;  // only Python can say
      for (const id in CHARTS) {
        const chart = dp.charts[id];
        if (chart?.current?.data) chart.update(dp.sampleCharts[CHARTS[id]](view, chart.current, word));
      }
    };
    // At once for the first movement in a frame, and once more before the frame is painted.
    const soon = () => {
      if (frame) { dirty = true; return; }
      frame = requestAnimationFrame(() => {
        frame = 0;
        if (dirty && ready()) preview();
      });
      preview();
    };

    // Asks even when moved back to the last answer's values: one for others may be on its way.
    // One request at a time: what was moved meanwhile is asked for when its answer is here.
    const settle = () => {
      timer = 0;
      just = null;
      if (!ready()) return;
      if (performance.now() - sent < PATIENCE) timer = setTimeout(settle, REST);
      else ask();
    };
    const ask = () => {
      asked += 1;
      sent = performance.now();
      send({ params: wanted(), of: value.of });
    };
    const later = (ms) => { clearTimeout(timer); timer = setTimeout(settle, ms); };

    const onInput = (event) => {
      const field = event.target.closest?.('[id^="dp-"]')?.id.slice(3);
      if (!ready() || !field || typeof value.params[field] !== "number") return;
      if (!["range", "number"].includes(event.target.type) || event.target.value === "") return;
      if (event.type === "change") {  // released, or typed and left
        if (timer) later(0);
        return;
      }
      just = [field, Number(event.target.value)];
      moved = true;
      asked = 0;
      // A click or a key is one movement: Python is asked while its preview is being painted.
      const alone = event.timeStamp - at > DRAG && performance.now() - sent > PATIENCE;
      at = event.timeStamp;
      soon();
      if (!alone) { later(REST); return; }
      clearTimeout(timer);
      timer = 0;
      ask();
    };

    const check = () => {
      if (!ready()) return;
      if (answered(wanted())) {
        if (over) preview();
        if (!timer) moved = false;
      } else if (asked > 1 && !timer) {
        moved = false;  // asked for twice and still not the same: Python's word is the last
      } else {
        soon();
        if (!timer) later(REST);
      }
    };
    const receive = () => {
      const got = dp.parse(props.value);
      if (!got || !dp.newer(holder, got.seq)) return;
      sent = -Infinity;
      if (got.refused) { moved = false; return; }
      // The payload is sent once for each position.
      value = "payload" in got ? got : { ...got, payload: value?.payload };
      dp.payload = value.payload;
      over = false;
      if (moved) check();
      requestAnimationFrame(check);  // what Python did to the sliders is in the page by then
    };

    document.addEventListener("input", onInput, true);
    document.addEventListener("change", onInput, true);
    dp.live.stop = () => {
      document.removeEventListener("input", onInput, true);
      document.removeEventListener("change", onInput, true);
      clearTimeout(timer);
    };
    dp.live.state = { get value() { return value; }, get waiting() { return moved; }, wanted };
    watch("value", receive);
    receive();
  };
})();
