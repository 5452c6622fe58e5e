/* Distributions as lists of atoms: the arithmetic under preview.js. Pure: no DOM, nothing kept.
 *
 * In: a payload of playground/payload.py. Out: atoms, highest score first. An atom is one token
 * (hi = lo = its score, n = 1) or a stretch of the tail: n unnamed tokens spread evenly over the
 * scores lo..hi. No token lies strictly inside a stretch (stretches are split there), so a walk
 * down the list meets tokens and mass in the order of the exact distribution.
 */
(function (root) {
  "use strict";

  const NARROW = 1e-4; // a stretch narrower than this counts as one point (error below 1e-9)
  const UNNAMED = -1; // id of a stretch

  /* scale: a stretch's score x scale is the model's own logit (only temperature moves stretches).
   * spare: what the true sum of squared scores has beyond that of even stretches. */
  function empty(scale, spare = 0) {
    return { hi: [], lo: [], n: [], id: [], scale, spare };
  }

  function push(atoms, hi, lo, n, id) {
    atoms.hi.push(hi);
    atoms.lo.push(lo);
    atoms.n.push(n);
    atoms.id.push(id);
  }

  function copyAtom(from, i, to) {
    push(to, from.hi[i], from.lo[i], from.n[i], from.id[i]);
  }

  /** Mean of e^x for x spread evenly over [lo, hi]. */
  function meanExp(hi, lo) {
    const w = hi - lo;
    return w < NARROW ? Math.exp(hi - w / 2) : (Math.exp(hi) - Math.exp(lo)) / w;
  }

  /** Mean of x e^x for x spread evenly over [lo, hi]. */
  function meanXExp(hi, lo) {
    const w = hi - lo;
    if (w < NARROW) return (hi - w / 2) * Math.exp(hi - w / 2);
    return ((hi - 1) * Math.exp(hi) - (lo - 1) * Math.exp(lo)) / w;
  }

  /** Normalise: mass per atom, log-partition, entropy (nats) and number of tokens. */
  function measure(atoms) {
    const { hi, lo, n } = atoms;
    const mass = new Float64Array(hi.length);
    const top = hi[0];
    let z = 0;
    let zx = 0;
    let count = 0;
    for (let i = 0; i < hi.length; i++) {
      const a = hi[i] - top;
      const b = lo[i] - top;
      const m = n[i] * meanExp(a, b);
      mass[i] = m;
      z += m;
      if (m > 0) zx += n[i] * meanXExp(a, b);
      count += n[i];
    }
    for (let i = 0; i < mass.length; i++) mass[i] /= z;
    const entropy = Math.max(0, Math.log(z) - zx / z);
    return { mass, logZ: top + Math.log(z), entropy, count };
  }

  /** Sort tokens and stretches into one list, splitting stretches at the tokens inside them. */
  function arrange(tokens, stretches, scale, spare) {
    // tokens: [{id, z}]; stretches: [{hi, lo, n}] from high to low, not overlapping
    tokens.sort((a, b) => b.z - a.z || a.id - b.id);
    const out = empty(scale, spare);
    let t = 0;
    for (const s of stretches) {
      const width = s.hi - s.lo;
      let hi = s.hi;
      for (; t < tokens.length && tokens[t].z > s.lo; t++) {
        const z = tokens[t].z;
        if (z < hi) {
          push(out, hi, z, (s.n * (hi - z)) / width, UNNAMED);
          hi = z;
        }
        push(out, z, z, 1, tokens[t].id);
      }
      // Equal scores: the token stands first, as one of the top 512 would.
      for (; width === 0 && t < tokens.length && tokens[t].z === s.lo; t++) {
        push(out, s.lo, s.lo, 1, tokens[t].id);
      }
      if (hi > s.lo || width === 0) {
        push(out, hi, s.lo, width === 0 ? s.n : (s.n * (hi - s.lo)) / width, UNNAMED);
      }
    }
    for (; t < tokens.length; t++) push(out, tokens[t].z, tokens[t].z, 1, tokens[t].id);
    return out;
  }

  function unpack(payload) {
    const tokens = [];
    const add = (ids, logits) => {
      // fround: the decimals are the shortest that name a float32
      for (let i = 0; i < ids.length; i++) tokens.push({ id: ids[i], z: Math.fround(logits[i]) });
    };
    add(payload.ids, payload.logits);
    add(payload.extra.ids, payload.extra.logits);
    // A bin is two even stretches that meet at its mean; their counts keep the mean where it is.
    const { top, depths, counts, below, squares } = payload.tail;
    const stretches = [];
    let spare = squares;
    const stretch = (upper, lower, n) => {
      if (n <= 0) return;
      stretches.push({ hi: Math.fround(top) - upper, lo: Math.fround(top) - lower, n });
      spare -= n * (((upper + lower) / 2) ** 2 + (upper - lower) ** 2 / 12);
    };
    for (let i = 0; i < counts.length; i++) {
      const mean = depths[i] + below[i] * (depths[i + 1] - depths[i]);
      stretch(depths[i], mean, counts[i] * (1 - below[i]));
      stretch(mean, depths[i + 1], counts[i] * below[i]);
    }
    return arrange(tokens, stretches, 1, spare);
  }

  root.dp = root.dp || {};
  root.dp.atoms = { UNNAMED, NARROW, empty, push, copyAtom, meanExp, measure, arrange, unpack };
})(globalThis);
