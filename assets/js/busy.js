// Says so where an answer takes over a second: that it is being made, or its place in the queue.
//
// Asks the server (GET waiting?session=...) while a request of this page is under way and long; where
// the server has no such address (a page inside another program) it says nothing.
(() => {
  if (!window.dp || dp.busy) return;
  const LONG = 1000;  // ms
  const AGAIN = 1000;
  let session = "", timer = 0, missing = false, line = null, opening = "";

  const say = (text) => {
    if (!line) {
      if (!text) return;
      line = dp.el("div", "dp-busy");
      line.setAttribute("role", "status");
      (document.querySelector(".gradio-container") || document.body).append(line);
    }
    line.textContent = text;
    line.classList.toggle("dp-shown", !!text);
  };
  const ask = async () => {
    timer = 0;
    let told = null;
    try {
      const root = (window.gradio_config?.root || "").replace(/\/$/, "");
      const answer = await native(`${root}/waiting?session=${encodeURIComponent(session)}`);
      missing = answer.status === 404;
      told = answer.ok ? await answer.json() : null;
    } catch { /* out of reach: Gradio says so */ }
    if (!told?.busy) { say(opening); return; }
    const place = dp.word("busy_place").replace("{place}", told.place).replace("{count}", told.waiting);
    say(told.place > 1 ? place : opening || dp.word("busy_working"));
    later(AGAIN);
  };
  const later = (ms) => { if (!timer && !missing) timer = setTimeout(ask, ms); };

  // Gradio sends each event of the page by fetch, with the session in its body.
  const native = window.fetch.bind(window);
  window.fetch = (input, init) => {
    if (/gradio_api\/(queue\/join|run\/)/.test(String(input?.url || input)) && typeof init?.body === "string") {
      session = /"session_hash":"(\w+)"/.exec(init.body)?.[1] || session;
      if (session) later(LONG);
    }
    return native(input, init);
  };
  dp.busy = {
    /** Says, until told otherwise, that a link is being opened. */
    opening: (is) => { say(opening = is ? dp.word("busy_opening") : ""); },
    get shown() { return line?.classList.contains("dp-shown") ? line.textContent : ""; } };
})();
