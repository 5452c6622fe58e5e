/* What a step looks like under other settings, computed in the browser while a slider is dragged.
 *
 * In: a payload of playground/payload.py and the params of its preview_params. Out: the structure
 * that its view gives (documented there), close to exact: every probability within 0.001, the kept
 * count exact up to 512. Pure: no DOM, nothing kept. Needs preview_atoms.js and preview_filters.js,
 * loaded before.
 *
 * Steps of preview():
 * 1. Unpack the payload into atoms: tokens, and stretches of the tail.
 * 2. Run the filters of params.order that are on, each on the atoms the last one left.
 * 3. After each, measure: partition, entropy, count, and the mass it removed.
 * 4. Read off what is drawn: bars, ledger, dice, cumulative curve, figures.
 */
(function (root) {
  "use strict";

  const { UNNAMED, NARROW, meanExp, measure, unpack } = root.dp.atoms;
  const { FILTERS, isGreedy, isOn } = root.dp.filters;

  /** The filters that are on, in order; null when one of them can't be previewed. */
  function active(payload, params) {
    const on = Object.keys(FILTERS).filter((name) => isOn(name, params));
    const order = params.order.filter((name) => on.includes(name));
    if (order.length < on.length || order.some((name) => FILTERS[name][2] === null)) return null;
    // A banned token must have come along, or its mass is unknown.
    const known = new Set([...payload.ids, ...payload.extra.ids]);
    if (payload.finite > known.size && !params.banned_tokens.every((id) => known.has(id))) {
      return null;
    }
    return order;
  }

  /** The token that u draws: the first whose cumulative probability exceeds it. */
  function drawnBy(u, atoms, { mass, logZ }, label) {
    let before = 0;
    let last = mass.length - 1;
    while (last > 0 && mass[last] === 0) last--;
    let i = 0;
    for (; i < last && before + mass[i] <= u; i++) before += mass[i];
    const id = atoms.id[i];
    if (id !== UNNAMED) return { id, label: label(id), before, p: mass[i] };
    // Inside a stretch the token has no name, but its probability is known.
    const part = Math.min(1, Math.max(0, (u - before) / mass[i]));
    const width = atoms.hi[i] - atoms.lo[i];
    const z = atoms.hi[i] + (width < NARROW ? -width / 2 : Math.log1p(part * Math.expm1(-width)));
    return { id: null, label: "", before: u, p: Math.exp(z - logZ) };
  }

  /**
   * Return what playground.payload.view returns for these params, or {exact: false} where the
   * preview can't follow. drawn.id is null where u falls on a token that the payload doesn't name.
   */
  function preview(payload, params, shown = 25) {
    const order = active(payload, params);
    if (order === null) return { exact: false };
    const tokens = new Map(); // id -> {raw, final, removed_by}
    for (const { ids, logits } of [payload, payload.extra]) {
      ids.forEach((id, i) => {
        const raw = Math.exp(Math.fround(logits[i]) - payload.log_z);
        tokens.set(id, { raw, final: 0, removed_by: "" });
      });
    }

    let atoms = unpack(payload);
    let measured = measure(atoms);
    const ledger = [
      { name: "model", kept: payload.finite, removed: 0, entropy: payload.entropy },
    ];
    for (const name of order) {
      const after = FILTERS[name][2](atoms, measured, params, payload);
      if (after.id.length === 0) return { exact: false }; // no token survives: Python says so
      const left = new Set(after.id);
      for (const id of atoms.id) {
        if (id !== UNNAMED && !left.has(id)) tokens.get(id).removed_by = name;
      }
      const next = measure(after);
      // Where the scores stayed as they were, what is missing of the partition was removed.
      const rescored = after.scale !== atoms.scale || name.endsWith("_penalty");
      ledger.push({
        name,
        kept: Math.max(1, Math.round(next.count)),
        removed: rescored ? 0 : Math.max(0, 1 - Math.exp(next.logZ - measured.logZ)),
        entropy: next.entropy,
      });
      atoms = after;
      measured = next;
    }

    let rawKept = 0;
    atoms.id.forEach((id, i) => {
      if (id === UNNAMED) {
        const own = (z) => z * atoms.scale - payload.log_z;
        rawKept += atoms.n[i] * meanExp(own(atoms.hi[i]), own(atoms.lo[i]));
      } else {
        tokens.get(id).final = measured.mass[i];
        rawKept += tokens.get(id).raw;
      }
    });
    const label = (id) => payload.labels[id] || "";
    // A token that the payload doesn't carry is one that the model itself rules out.
    const token = (id) => ({
      id, label: label(id), ...(tokens.get(id) || { raw: 0, final: 0, removed_by: "model" }),
    });

    const rows = payload.ids.slice(0, shown).map((id, i) => ({ ...token(id), rank: i + 1 }));
    const greedy = isGreedy(params);
    const u = greedy ? null : payload.u;
    const { kept, entropy } = ledger[ledger.length - 1];
    const sum = (field) => rows.reduce((total, row) => total + row[field], 0);
    const cdf = [];
    for (let i = 0, upto = 0; i < atoms.id.length && cdf.length < shown; i++) {
      const id = atoms.id[i] === UNNAMED ? null : atoms.id[i];
      const step = (atoms.hi[i] - atoms.lo[i]) / atoms.n[i];
      for (let k = 0; k < Math.max(1, Math.floor(atoms.n[i])) && cdf.length < shown; k++) {
        const p = id === null
          ? Math.exp(atoms.hi[i] - (k + 0.5) * step - measured.logZ) : measured.mass[i];
        upto += p;
        cdf.push({ id, label: label(id), p, upto });
      }
    }
    return {
      exact: true,
      rows,
      rest: {
        n: payload.V - rows.length,
        kept: kept - rows.filter((row) => !row.removed_by).length,
        mass: Math.max(0, 1 - sum("final")),
        raw: Math.max(0, 1 - sum("raw")),
      },
      kept,
      ledger,
      u,
      drawn: u === null && !greedy ? null : drawnBy(u || 0, atoms, measured, label),
      taken: payload.taken === null ? null : token(payload.taken),
      cdf,
      figures: {
        entropy_model: payload.entropy,
        entropy,
        perplexity: Math.exp(entropy),
        top1: Math.exp(atoms.hi[0] - measured.logZ),
        mass_cut: Math.max(0, 1 - rawKept),
      },
    };
  }

  root.dp.preview = preview;
})(globalThis);
