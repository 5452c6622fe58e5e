/* The filters of the preview: the rules of playground/processors on atoms, which the tests compare.
 *
 * In: atoms, their measure, params, payload. Out: new atoms, at least one token (but where tokens
 * are banned). A filter gives a shorter list; a cut inside a stretch shortens the stretch. Pure: no
 * DOM, nothing kept. Needs preview_atoms.js, loaded before.
 */
(function (root) {
  "use strict";

  const { UNNAMED, NARROW, empty, push, copyAtom, meanExp, arrange } = root.dp.atoms;
  const HALF = 0.5; // counts of stretches are not whole numbers: equal means closer than this
  const LEVEL = 1e-9; // scores nearer than this are equal
  const VLLM_GREEDY = 1e-5; // vLLM takes a lower temperature for greedy

  /** Whether a count is kept exactly where tokens tie. */
  function exactTies(params, name) {
    return params.dialect === "llama.cpp" || (params.dialect === "vllm" && name === "top_k");
  }

  /** Never nothing: the likeliest token survives any cut. */
  function atLeastOne(kept, atoms) {
    if (kept.hi.length === 0) {
      push(kept, atoms.hi[0], atoms.id[0] === UNNAMED ? atoms.hi[0] : atoms.lo[0], 1, atoms.id[0]);
    }
    return kept;
  }

  /** Keep scores from low to high; `holds` decides for a token by its place in the list. */
  function between(atoms, low, high, holds) {
    const kept = empty(atoms.scale);
    for (let i = 0; i < atoms.hi.length; i++) {
      if (atoms.id[i] !== UNNAMED) {
        if (holds(i)) copyAtom(atoms, i, kept);
        continue;
      }
      const hi = Math.min(atoms.hi[i], high);
      const lo = Math.max(atoms.lo[i], low);
      if (hi < lo) continue;
      const width = atoms.hi[i] - atoms.lo[i];
      const part = width > 0 ? (hi - lo) / width : 1;
      if (part > 0) push(kept, hi, lo, atoms.n[i] * part, UNNAMED);
    }
    return atLeastOne(kept, atoms);
  }

  /** Keep the tokens whose probability is at least `threshold`. */
  function likelier(atoms, measured, threshold) {
    const low = measured.logZ + Math.log(threshold);
    return between(atoms, low, Infinity, (i) => measured.mass[i] >= threshold);
  }

  /** Keep the first `count` tokens of stretch i. */
  function pushFirst(atoms, i, count, kept) {
    const part = Math.min(1, count / atoms.n[i]);
    const lo = atoms.hi[i] - part * (atoms.hi[i] - atoms.lo[i]);
    if (part > 0) push(kept, atoms.hi[i], lo, atoms.n[i] * part, UNNAMED);
  }

  /** Give tokens new scores: change(id, score). */
  function rescore(atoms, change) {
    const tokens = [];
    const stretches = [];
    for (let i = 0; i < atoms.hi.length; i++) {
      const id = atoms.id[i];
      if (id === UNNAMED) stretches.push({ hi: atoms.hi[i], lo: atoms.lo[i], n: atoms.n[i] });
      else tokens.push({ id, z: change(id, atoms.hi[i]) });
    }
    return arrange(tokens, stretches, atoms.scale, atoms.spare);
  }

  /** Change the scores of the context's tokens: change(score, times it occurred). */
  function penalize(name, change) {
    return (atoms, measured, params, payload) => {
      const { ids, prompt, new: added } = payload.context;
      // vLLM counts the prompt for the repetition penalty only.
      const vllm = params.dialect === "vllm" && name !== "repetition_penalty";
      const seen = new Map();
      ids.forEach((id, i) => {
        const times = added[i] + (params.penalize_prompt && !vllm ? prompt[i] : 0);
        if (times > 0) seen.set(id, times);
      });
      const by = params[name];
      return rescore(atoms, (id, z) => (seen.has(id) ? change(z, by, seen.get(id)) : z));
    };
  }

  function banned(atoms, measured, params) {
    const out = new Set(params.banned_tokens);
    const kept = empty(atoms.scale, atoms.spare);
    for (let i = 0; i < atoms.id.length; i++) {
      if (!out.has(atoms.id[i])) copyAtom(atoms, i, kept);
    }
    return kept;
  }

  function isGreedy({ temperature: t, dialect }) {
    return t === 0 || (dialect === "vllm" && t < VLLM_GREEDY);
  }

  function temperature(atoms, measured, params) {
    const t = params.temperature;
    if (isGreedy(params) || !Number.isFinite(atoms.hi[0] / t)) {
      return atLeastOne(empty(atoms.scale), atoms);
    }
    const out = empty(atoms.scale * t, atoms.spare / t ** 2);
    for (let i = 0; i < atoms.hi.length; i++) {
      push(out, atoms.hi[i] / t, atoms.lo[i] / t, atoms.n[i], atoms.id[i]);
    }
    return out;
  }

  function topP(atoms, measured, params) {
    const { mass } = measured;
    const kept = empty(atoms.scale);
    let before = 0;
    for (let i = 0; i < mass.length && before < params.top_p; i++) {
      if (before + mass[i] < params.top_p || atoms.id[i] !== UNNAMED) {
        copyAtom(atoms, i, kept);
      } else {
        // Inside a stretch: the score above which the missing mass lies, then one token more.
        const width = atoms.hi[i] - atoms.lo[i];
        const part = (params.top_p - before) / mass[i];
        const share = width < NARROW ? part : -Math.log1p(part * Math.expm1(-width)) / width;
        pushFirst(atoms, i, Math.ceil(atoms.n[i] * share), kept);
      }
      before += mass[i];
    }
    return atLeastOne(kept, atoms);
  }

  function topK(atoms, measured, params) {
    const k = params.top_k;
    const exact = exactTies(params, "top_k");
    const kept = empty(atoms.scale);
    let count = 0;
    let last = -Infinity; // the k-th score: its ties stay, but where the dialect counts exactly
    for (let i = 0; i < atoms.hi.length; i++) {
      const tied = !exact && atoms.hi[i] === last && atoms.lo[i] === last;
      if (count >= k - HALF && !tied) break;
      const whole = tied || count + atoms.n[i] <= k + HALF;
      const level = atoms.hi[i] === atoms.lo[i];
      if (whole || (level && !exact)) copyAtom(atoms, i, kept);
      else pushFirst(atoms, i, k - count, kept);
      count += atoms.n[i];
      if (count >= k - HALF && last === -Infinity) last = level ? atoms.lo[i] : Infinity;
    }
    return atLeastOne(kept, atoms);
  }

  function minP(atoms, measured, params) {
    const top = atoms.hi[0];
    const holds = (i) => Math.exp(atoms.hi[i] - top) >= params.min_p;
    return between(atoms, top + Math.log(params.min_p), Infinity, holds);
  }

  /** Keep what is least surprising relative to the entropy, until it holds the mass. */
  function typical(atoms, measured, params) {
    const centre = measured.logZ - measured.entropy; // the score whose surprise is the entropy
    const wanted = params.typical_p;
    const exact = exactTies(params, "typical_p");
    const tokens = [];
    for (let i = 0; i < atoms.id.length; i++) {
      if (atoms.id[i] !== UNNAMED) tokens.push({ i, gap: Math.abs(atoms.hi[i] - centre) });
    }
    tokens.sort((a, b) => a.gap - b.gap || atoms.id[a.i] - atoms.id[b.i]);
    const upto = new Float64Array(tokens.length + 1); // mass of the first j tokens
    tokens.forEach(({ i }, j) => (upto[j + 1] = upto[j] + measured.mass[i]));
    const spread = (gap) => stretchMass(atoms, measured.logZ, centre - gap, centre + gap);
    const enough = (mass) => (exact ? mass > wanted : mass >= wanted);

    // The first token at whose gap the mass is there ...
    let first = 0;
    for (let end = tokens.length; first < end; ) {
      const middle = (first + end) >> 1;
      if (enough(upto[middle + 1] + spread(tokens[middle].gap))) end = middle;
      else first = middle + 1;
    }
    let gap = first < tokens.length ? tokens[first].gap : Infinity;
    let named = first + 1; // how many tokens stay
    // ... unless the stretches below that gap hold it already.
    if (enough(upto[first] + spread(gap))) {
      named = first;
      let low = first > 0 ? tokens[first - 1].gap : 0;
      let high = Math.min(gap, Math.max(atoms.hi[0] - centre, centre - lowest(atoms)));
      for (let n = 0; n < 60 && low < high; n++) {
        const middle = (low + high) / 2;
        if (enough(upto[first] + spread(middle))) high = middle;
        else low = middle;
      }
      gap = high;
    }
    const stay = new Set(tokens.slice(0, named).map((t) => t.i));
    if (!exact) {
      for (let j = named; j < tokens.length && tokens[j].gap <= gap; j++) stay.add(tokens[j].i);
    }
    const kept = between(atoms, centre - gap, centre + gap, (i) => stay.has(i));
    if (exact) trim(kept, upto[named] + spread(gap) - wanted, centre, gap, measured.logZ);
    return kept;
  }

  /** Take the mass that isn't wanted from the runs of equal scores at the edge of a typical cut. */
  function trim(kept, surplus, centre, gap, logZ) {
    for (let i = 0; i < kept.id.length; i++) {
      const level = kept.id[i] === UNNAMED && kept.hi[i] === kept.lo[i];
      if (!level || Math.abs(Math.abs(kept.hi[i] - centre) - gap) > LEVEL) continue;
      const p = Math.exp(kept.hi[i] - logZ);
      const out = Math.min(kept.n[i] - 1, Math.max(0, Math.floor(surplus / p)));
      kept.n[i] -= out;
      surplus -= out * p;
    }
  }

  function lowest(atoms) {
    return atoms.lo[atoms.lo.length - 1];
  }

  /** Mass of the stretches between two scores. */
  function stretchMass(atoms, logZ, low, high) {
    let mass = 0;
    for (let i = 0; i < atoms.id.length; i++) {
      if (atoms.id[i] !== UNNAMED || atoms.lo[i] > high || atoms.hi[i] < low) continue;
      const hi = Math.min(atoms.hi[i], high);
      const lo = Math.max(atoms.lo[i], low);
      const width = atoms.hi[i] - atoms.lo[i];
      const part = width > 0 ? (hi - lo) / width : 1;
      mass += atoms.n[i] * part * meanExp(hi - logZ, lo - logZ);
    }
    return mass;
  }

  function epsilon(atoms, measured, params) {
    return likelier(atoms, measured, params.epsilon_cutoff);
  }

  function eta(atoms, measured, params) {
    const e = params.eta_cutoff;
    return likelier(atoms, measured, Math.min(e, Math.sqrt(e) * Math.exp(-measured.entropy)));
  }

  function topNSigma(atoms, measured, params) {
    const top = atoms.hi[0];
    let sum = 0;
    let squares = atoms.spare;
    for (let i = 0; i < atoms.hi.length; i++) {
      const middle = (atoms.hi[i] + atoms.lo[i]) / 2 - top;
      const width = atoms.hi[i] - atoms.lo[i];
      sum += atoms.n[i] * middle;
      squares += atoms.n[i] * (middle * middle + (width * width) / 12);
    }
    const mean = sum / measured.count;
    const sigma = Math.sqrt(Math.max(0, squares / measured.count - mean * mean));
    const low = top - params.top_n_sigma * sigma;
    return between(atoms, low, Infinity, (i) => atoms.hi[i] >= low);
  }

  // Filter -> [its setting, the neutral value at which it is off, what it does (null: can't)].
  const FILTERS = {
    repetition_penalty: ["repetition_penalty", 1,
      penalize("repetition_penalty", (z, by) => (z < 0 ? z * by : z / by))],
    presence_penalty: ["presence_penalty", 0, penalize("presence_penalty", (z, by) => z - by)],
    frequency_penalty: ["frequency_penalty", 0,
      penalize("frequency_penalty", (z, by, times) => z - by * times)],
    no_repeat_ngram: ["no_repeat_ngram_size", 0, null],
    banned_tokens: ["banned_tokens", 0, banned],
    temperature: ["temperature", 1, temperature],
    top_n_sigma: ["top_n_sigma", 0, topNSigma],
    top_k: ["top_k", 0, topK],
    top_p: ["top_p", 1, topP],
    min_p: ["min_p", 0, minP],
    typical_p: ["typical_p", 1, typical],
    epsilon_cutoff: ["epsilon_cutoff", 0, epsilon],
    eta_cutoff: ["eta_cutoff", 0, eta],
    xtc: ["xtc_probability", 0, null],
  };

  function isOn(name, params) {
    const value = params[FILTERS[name][0]];
    return (Array.isArray(value) ? value.length : value) !== FILTERS[name][1];
  }

  root.dp.filters = { FILTERS, isGreedy, isOn };
})(globalThis);
