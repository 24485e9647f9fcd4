"use strict";
// The page of sentences: everything follows the token, the hypothesis, the model and the sentence that are chosen.

kinds.sentences = async () => {
  const { models, sentences, pair } = page;
  const whose = ["good", "bad"];
  const at = {
    sentence: Math.min(Number(state.get("sentence", "1")) - 1, sentences.length - 1) || 0,
    model: Math.max(models.indexOf(state.get("model", models[0])), 0),
    token: Number(state.get("token", "0")),
    hypothesis: Number(state.get("hypothesis", "1")) - 1,
    layer: 0, term: "weights", columns: new Set(),
  };
  const trace = (s, m) => packed(`trace-${s}-${m}`);
  let traces = [], now = null;  // of the sentence, by model; the chosen model's

  /** A token as it is shown: "·" before one that continues the word of the token before it. */
  const shown = (one, k) => (one.tokens[k] === undefined ? "" : `${one.word[k] >= 0 && one.word[k] === one.word[k - 1] ? "·" : ""}${one.tokens[k]}`);
  const token = (k) => shown(now, k);
  const last = () => now.tokens.length - 1;
  const first = () => (now.surprisals[0] === null && now.tokens.length > 1 ? 1 : 0);
  const eos = () => (now.derivations === "attachments" ? now.tokens.length - 1 : -1);
  // What is shown first: the token of the highest surprisal, of a model without surprisals the last.
  const surprising = () => now.surprisals.reduce((most, bits, k) => (bits !== null && k >= first() && bits > (now.surprisals[most] ?? -1) ? k : most), last());
  const step = () => now.steps.find((each) => each.position === at.token) ?? null;

  // ---- what is chosen ----------------------------------------------------------------------------------------

  async function go(change) {
    const before = { ...at };
    Object.assign(at, change);
    if (now === null || before.sentence !== at.sentence) {
      traces = await Promise.all(models.map((_, m) => trace(at.sentence, m)));
    }
    const read = now?.tokens.join("\n");
    now = traces[at.model];
    if (now.tokens.join("\n") !== read) at.columns = new Set();  // positions are of these tokens
    const tree = now.tokens.reduce((sum, text) => sum + Math.max(24, textWidth(text) + 12), 0);
    (tree < 560 ? narrow : broad).append(panels.forest.element);
    if (!at.token || (before.sentence !== at.sentence && change.token === undefined)) at.token = surprising();
    at.token = Math.min(Math.max(at.token, first()), last());
    if (change.token !== undefined || change.model !== undefined || change.sentence !== undefined) at.hypothesis = change.hypothesis ?? 0;
    at.hypothesis = Math.min(Math.max(at.hypothesis, 0), Math.max((step()?.hypotheses.length ?? 1) - 1, 0));
    at.layer = Math.min(at.layer, (now.attention?.layers ?? 1) - 1);
    if (at.term !== "weights" && !now.attention?.without[at.term.split(":")[1]]) at.term = "weights";
    state.set({ sentence: at.sentence ? at.sentence + 1 : "", model: at.model ? models[at.model] : "", token: at.token, hypothesis: at.hypothesis ? at.hypothesis + 1 : "" });
    draw();
  }

  const slider = make("input", { type: "range", min: 1, "aria-label": "token", input: () => go({ token: Number(slider.value) }) });
  const where = make("output", { "aria-live": "polite", class: "where" });
  const back = make("button", { "aria-label": "previous token", click: () => go({ token: at.token - 1 }) }, "←");
  const on = make("button", { "aria-label": "next token", click: () => go({ token: at.token + 1 }) }, "→");
  const chooseModel = models.length > 1 ? selection("model", models.map((name, m) => [String(m), name]), String(at.model), (value) => go({ model: Number(value), token: at.token })) : null;
  const chooseSentence = sentences.length > 1 ? selection(pair ? "sentence" : "", sentences.map((text, s) => [String(s), pair ? `${whose[s]}: ${text}` : `${s + 1}. ${text.length > 60 ? `${text.slice(0, 60)}…` : text}`]), String(at.sentence), (value) => go({ sentence: Number(value) })) : null;

  document.addEventListener("keydown", (event) => {
    const field = event.target.closest?.("select, textarea, input:not([type=range])");
    if (field || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowLeft: { token: at.token - 1 }, ArrowRight: { token: at.token + 1 }, Home: { token: first() }, End: { token: last() } }[event.key];
    if (to && (event.key.startsWith("Arrow") || event.target === slider || event.target === document.body)) go(to);
    else if (/^[1-9]$/.test(event.key)) go({ hypothesis: Number(event.key) - 1 });
    else return;
    event.preventDefault();
  }, { signal: left.signal });

  // ---- panels ------------------------------------------------------------------------------------------------

  const panels = {};
  const panel = (name, title, ...buttons) => {
    const place = make("div", { class: "scroll", id: `panel-${name}`, tabindex: 0, role: "group", "aria-label": title });
    const heading = make("h3", {}, title);
    const element = make("section", {}, heading, place, buttons.length ? make("div", { class: "controls noprint" }, buttons.map((each) => each(place))) : null);
    panels[name] = { element, place, heading };
    return element;
  };
  /** Replace what a panel shows, or hide it; where it was scrolled to stays. */
  function show(name, ...content) {
    const { element, place } = panels[name];
    element.hidden = !content.length;
    const { scrollLeft } = place;
    place.replaceChildren(...content.flat(Infinity).filter(Boolean));
    place.scrollLeft = scrollLeft;
  }

  const key = (m) => make("span", { class: "key" }, make("svg", { width: 22, height: 14, "aria-hidden": "true" }, make("rect", { x: 1, y: 1, width: 20, height: 12, fill: m === at.model ? colour(m) : "none", stroke: colour(m), "stroke-width": 2, "stroke-dasharray": m === at.model ? null : "4 2" })), models[m]);

  function draw() {
    slider.min = first();
    slider.max = last();
    slider.value = at.token;
    slider.setAttribute("aria-valuetext", `${at.token}, ${token(at.token)}`);
    back.disabled = at.token <= first();
    on.disabled = at.token >= last();
    where.textContent = `${at.token}/${last()} ${token(at.token)}`;
    if (chooseModel) chooseModel.querySelector("select").value = String(at.model);
    if (chooseSentence) chooseSentence.querySelector("select").value = String(at.sentence);
    bitsOfWords();
    surprisals();
    const beam = step();
    const hypothesis = beam?.hypotheses[at.hypothesis] ?? null;
    hypotheses(beam);
    overTime(beam);
    forest(hypothesis);
    tape(hypothesis);
    actions(hypothesis);
    attachment(beam);
    attention();
    composed();
    stacks();
    splits();
    whole();
    follow();
  }

  function surprisals() {
    const order = [at.model, ...models.keys()].filter((m, i, all) => all.indexOf(m) === i);
    // Models with other tokens are drawn where their tokens are in number only if the tokens are the same.
    const same = order.filter((m) => traces[m].tokens.join("\0") === now.tokens.join("\0"));
    const others = order.filter((m) => !same.includes(m));
    const ks = now.tokens.map((_, k) => k).filter((k) => k >= first());
    const room = panels.surprisals.place.clientWidth || 900;
    const sum = (m) => traces[m].surprisals.reduce((a, b) => a + (b ?? 0), 0);
    const place = make("div", {}, barsDrawing({
      labels: ks.map(token), values: same.map((m) => ks.map((k) => traces[m].surprisals[k])), colours: same.map(colour), now: at.token - ks[0],
      choose: (c) => go({ token: ks[c] }), name: `surprisal of each token under ${same.map((m) => models[m]).join(", ")}`, room }));
    show("surprisals",
      make("div", { class: "keys" }, same.map(key), make("span", { class: "soft" }, same.map((m) => `${models[m]}: ${digits(sum(m), 1)} bits in all`).join("; "), same.length > 1 ? `. Numbers: ${models[at.model]}` : "", now.tokens.some((_, k) => token(k) !== now.tokens[k]) ? ". Tokens with\u00a0· continue a word." : "")),
      now.surprisals.every((x) => x === null) ? make("p", { class: "soft" }, "This model gives no probabilities of words.") : place,
      others.map((m) => [make("div", { class: "soft" }, `${models[m]}, which has other tokens: ${digits(sum(m), 1)} bits in all`), barsDrawing({ labels: traces[m].tokens.map((_, k) => shown(traces[m], k)), values: [traces[m].surprisals], colours: [colour(m)], now: null, name: `surprisal of each token under ${models[m]}`, room })]));
    panels.surprisals.rows = () => order.flatMap((m) => traces[m].tokens.map((text, k) => [models[m], k, text, traces[m].surprisals[k]]));
  }

  /** Bits of words, if they are asked for: together, of models that have the same ones. */
  function bitsOfWords() {
    const all = page.written?.[at.sentence] ?? [], names = (m) => all[m].map(([text]) => text);
    const order = [at.model, ...all.keys()].filter((m, i, those) => those.indexOf(m) === i && all[m]?.length);
    const groups = [...new Set(order.map((m) => names(m).join("\0")))].map((same) => order.filter((m) => names(m).join("\0") === same));
    show("written", ...groups.map((ms) => [make("div", { class: "keys" }, ms.map(key)), barsDrawing({
      labels: names(ms[0]), values: ms.map((m) => all[m].map(([, bits]) => bits)), colours: ms.map(colour), now: null,
      name: `surprisal of each word under ${ms.map((m) => models[m]).join(", ")}`, room: panels.written.place.clientWidth || 900 })]));
  }

  function hypotheses(beam) {
    if (!beam) return show("beam");
    const most = beam.hypotheses[0]?.share || 1;
    const rows = beam.hypotheses.map((each, rank) => [
      make("button", { class: "pick", "aria-pressed": String(rank === at.hypothesis), "aria-label": `hypothesis ${rank + 1}`, click: () => go({ hypothesis: rank }) }, rank + 1),
      `${percent(each.share)}%`,
      make("span", { class: "share", style: `width: ${(40 * each.share / most).toFixed(1)}px; background: ${family(rank)}` }),
      make("div", { class: "text", dir: "auto" }, shortened(written(each.derivation), rank)),
      digits(each.joint, 1), each.surprisal === null ? "" : digits(each.surprisal, 1)]);
    const listed = table(["", { name: "share", number: true }, "", { name: isGraph() ? "arcs" : "on the stack", number: false }, { name: "log2 p", number: true }, { name: "bits", number: true }], rows,
      { caption: `${beam.kept} kept, ${percent(beam.rest, 2)}% in those not listed. log2 p: of tokens and derivation so far; bits: the token's surprisal under that hypothesis alone.`, rowClass: (n) => (n === at.hypothesis ? "chosen" : null) });
    listed.classList.add("beam");
    listed.querySelectorAll("tbody tr").forEach((row, rank) => row.addEventListener("click", () => go({ hypothesis: rank })));
    const focused = document.activeElement?.getAttribute?.("aria-label");
    panels.beam.heading.textContent = `Hypotheses after “${token(at.token)}”`;
    show("beam", listed);
    if (focused?.startsWith("hypothesis ")) panels.beam.place.querySelector(`[aria-label="hypothesis ${at.hypothesis + 1}"]`)?.focus();
  }

  const isGraph = () => now.derivations === "arcs";
  const written = (derivation) => (isGraph() ? arcsText(arcsOf(derivation), token) : bracketed(forestOf(derivation, now.derivations, eos()), token));
  // Positions of nodes of graphs: the root, and the first token of each word.
  const nodes = (upTo) => [0, ...words(upTo).filter((k) => now.word[k] !== now.word[k - 1])];

  /** The end of what stands on a stack, where hypotheses differ; of the chosen one all. */
  const shortened = (text, rank) => (rank === at.hypothesis || text.length <= 120 ? text : `… ${text.slice(-110).replace(/^\S*\s/, "")}`);

  // Hypotheses of the chosen step: the same colour in the list and over time.
  const family = (rank) => (rank < 6 ? colour(rank) : `hsl(${(rank * 67) % 360} 25% ${62 + (rank % 3) * 6}%)`);

  function overTime(beam) {
    if (!beam) return show("time");
    const k = now.steps.indexOf(beam);
    show("time", beamDrawing({
      steps: now.steps, families: ancestry(now.steps, k), colours: family, now: k, chosen: at.hypothesis, choose: (t) => go({ token: now.steps[t].position }),
      label: (t) => token(now.steps[t].position), name: "shares of the beam after each token, by family", room: panels.time.place.clientWidth || 560 }),
      make("p", { class: "soft" }, `Colours are those of the list above: before “${token(at.token)}”, the hypotheses that became it; after it, those that grew from it. Grey: nothing of it is left, or not listed.`));
  }

  const gold = () => (now.gold?.derivation && !isGraph() ? spansOf(forestOf(now.gold.derivation, now.gold.derivation.some((x) => typeof x === "string") ? "actions" : "attachments", now.tokens.length - 1)) : null);
  const isGold = (spans) => (node) => spans === null || node.start === node.end || node.start === undefined || spans.has(`${node.start}-${node.end}`);
  const words = (upTo) => now.tokens.map((_, k) => k).filter((k) => k >= 1 && k <= upTo && now.word[k] >= 0);

  function forest(hypothesis) {
    if (!hypothesis) return show("forest");
    if (isGraph()) return graph(arcsOf(hypothesis.derivation), nodes(at.token));
    const found = forestOf(hypothesis.derivation, now.derivations, eos());
    const spans = gold();
    const wrong = spans && [...spansOf(found)].filter((each) => !spans.has(each) && each.split("-")[0] !== each.split("-")[1]).length;
    panels.forest.latex = () => latexOf(found, token, isGold(spans));
    show("forest",
      forestDrawing({ forest: found, token, places: words(at.token), isGold: isGold(spans), like: now.best?.derivation ? forestOf(now.best.derivation, now.derivations, eos()) : [], name: `the stack after ${token(at.token)}: ${bracketed(found, token)}` }),
      make("p", { class: "soft" }, spans ? `Orange and dashed: constituents that the gold tree does not have (${wrong}).` : "No gold tree was given (--gold)."));
  }

  function graph(arcs, places) {
    panels.forest.heading.textContent = "The graph of the chosen hypothesis";
    panels.forest.latex = () => latexOfArcs(arcs, places, token);
    show("forest", arcsDrawing({ arcs, token, places: places.slice(1), now: places.at(-1), name: `the graph after ${token(at.token)}: ${arcsText(arcs, token)}` }));
  }

  function graphTapes(hypothesis) {
    const places = nodes(at.token), tokens = places.map((k) => (k ? token(k) : "root"));
    panels.tape.heading.textContent = "Degree, depth and distance of each word (column) after each word (row)";
    const all = graphFeatures(arcsOf(hypothesis.derivation), places);
    show("tape", Object.entries(all).map(([name, rows]) => [make("div", { class: "soft" }, name), tapeDrawing({ rows, tokens, now: places.length - 1, name: `${name} up to ${token(at.token)}` })]));
  }

  function tape(hypothesis) {
    if (hypothesis && isGraph() && now.model.kind === "arcs") return graphTapes(hypothesis);
    if (!hypothesis || now.derivations !== "attachments") return show("tape");
    const rows = tapeOf(hypothesis.derivation);
    show("tape", tapeDrawing({ rows, tokens: now.tokens.map((_, k) => token(k)), now: at.token, name: `the tape up to ${token(at.token)}` }),
      opening("Table", () => table(["after", ...rows.map((_, j) => token(j))], rows.map((row, k) => [token(k), ...row, ...Array(rows.length - row.length).fill("")]))));
  }

  function actions(hypothesis) {
    if (!hypothesis || now.derivations !== "actions") return show("actions");
    const open = [];
    for (const each of hypothesis.derivation) if (typeof each === "string") each.startsWith("(") ? open.push(each) : open.pop();
    show("actions",
      make("div", { class: "tokens" }, hypothesis.derivation.map((each) => (typeof each === "number" ? make("span", { style: "background: var(--chosen)", title: `position ${each}` }, token(each)) : make("span", { class: each.startsWith("(") ? "" : "soft", style: each.startsWith("(") ? "color: var(--link)" : "background: var(--shade)" }, each)))),
      make("p", { class: "soft" }, open.length ? `Open: ${open.join(" ")}` : "Nothing is open."));
  }

  function attachment(beam) {
    if (!beam?.attachment) return show("attachment");
    const likely = beam.attachment.map((p, j) => ({ p, j })).filter(({ p }) => p >= 0.005).sort((a, b) => b.p - a.p).slice(0, 8);
    show("attachment", make("div", { class: "tokens" }, likely.map(({ p, j }) => make("span", { style: `background: rgba(0, 114, 178, ${(0.5 * p).toFixed(3)})` }, `${j === at.token ? "shifts only" : `with ${token(j)}`} `, make("small", {}, `${percent(p)}%`)))));
  }

  // ---- attention ---------------------------------------------------------------------------------------------

  /** Bytes of weights: layer by layer, head by head, lower triangles. */
  function weightsOf(text) {
    weights.has(text) || weights.set(text, Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
    return weights.get(text);
  }
  const weights = new Map();

  function attention() {
    const found = now.attention;
    if (!found) return show("attention");
    const { layers, heads, positions } = found;
    const T = positions.length, triangle = (T * (T + 1)) / 2;
    const [kind, name] = at.term.split(":");
    const whole = weightsOf(found.weights), without = name ? weightsOf(found.without[name]) : null;
    const weight = (layer, head, i, j) => {
      const index = (layer * heads + head) * triangle + (i * (i + 1)) / 2 + j;
      return (kind === "difference" ? whole[index] - without[index] : (kind === "without" ? without : whole)[index]) / 255;
    };
    const label = (i) => (typeof positions[i] === "number" ? token(positions[i]) : positions[i]);
    // The last position that was read when the token had been: end-of-sentence is read by no one.
    let row = positions.findLastIndex((each) => typeof each === "number" && each <= at.token);
    while (row + 1 < T && typeof positions[row + 1] === "string" && (isGraph() || positions[row + 1].includes(")"))) row++;
    const terms = [["weights", "all terms"], ...Object.keys(found.without).flatMap((each) => [[`without:${each}`, `without the ${each} term`], [`difference:${each}`, `difference: with ${MINUS} without ${each}`]])];
    const mean = (i, j) => Array.from({ length: heads }, (_, h) => weight(at.layer, h, i, j)).reduce((a, b) => a + b, 0) / heads;
    const strength = (w) => (kind === "difference" ? (w >= 0 ? `rgba(213, 94, 0, ${Math.min(1, 2 * w).toFixed(3)})` : `rgba(0, 114, 178, ${Math.min(1, -2 * w).toFixed(3)})`) : `rgba(0, 114, 178, ${(0.7 * w).toFixed(3)})`);
    const chosen = [...at.columns].filter((j) => j <= row).sort((a, b) => a - b);
    const sums = chosen.length ? Array.from({ length: layers }, (_, l) => [l + 1, ...Array.from({ length: heads }, (_, h) => chosen.reduce((sum, j) => sum + weight(l, h, row, j), 0))]) : null;
    const toggle = (j) => { at.columns.has(j) ? at.columns.delete(j) : at.columns.add(j); attention(); panels.attention.place.querySelectorAll(".pickcolumn")[j]?.focus(); };
    show("attention",
      make("div", { class: "controls" },
        selection("layer", Array.from({ length: layers }, (_, l) => [String(l), String(l + 1)]), String(at.layer), (value) => { at.layer = Number(value); attention(); }),
        terms.length > 1 ? selection("scores", terms, at.term, (value) => { at.term = value; attention(); }) : null,
        make("span", { class: "soft" }, { incremental: "Each row under the best hypothesis after its token.", best: "Under the best derivation of the sentence.", none: "" }[found.derivation])),
      make("div", { style: "display: flex; flex-wrap: wrap; gap: 12px" }, Array.from({ length: heads }, (_, h) => make("figure", { style: "margin: 0" },
        weightsCanvas({ n: T, now: row, weight: (i, j) => weight(at.layer, h, i, j), difference: kind === "difference", name: `attention, layer ${at.layer + 1}, head ${h + 1}` }), make("figcaption", { class: "soft" }, `head ${h + 1}`)))),
      make("p", {}, `From “${label(row)}”, mean of the heads of layer ${at.layer + 1}; choose tokens to add up their shares:`),
      make("div", { class: "tokens" }, Array.from({ length: row + 1 }, (_, j) => make("button", { class: "pickcolumn", style: `background: ${strength(mean(row, j))}; color: var(--ink); min-height: 26px; padding: 1px 6px${at.columns.has(j) ? "; outline: 2px solid #000" : ""}`, "aria-pressed": String(at.columns.has(j)), click: () => toggle(j) }, `${label(j)} `, make("small", {}, `${digits(100 * mean(row, j), 0)}`)))),
      sums ? table([{ name: "layer", number: true }, ...Array.from({ length: heads }, (_, h) => ({ name: `head ${h + 1}`, number: true }))], sums.map((each) => each.map((x, i) => (i ? `${percent(x)}%` : x))), { caption: `From “${label(row)}” to ${chosen.map(label).join(" + ")}${kind === "difference" ? ", difference in points" : ""}` }) : null);
  }

  /** Of compositions by attention: a row for each constituent of the best parse that has closed; the weight of each child. */
  function composed() {
    if (!now.composed) return show("composed");
    const rows = now.composed.filter(({ last }) => last <= at.token);
    const text = (from, past) => words(past - 1).filter((k) => k >= from).map(token).join(" ");
    show("composed", table(["constituent", "its children, and the weight of each (%)"], rows.map(({ label, children, last, weights }) => [
      label, make("div", { class: "tokens" }, children.map((from, c) => make("span", { style: `background: rgba(0, 114, 178, ${(0.6 * weights[c]).toFixed(3)})` }, `${text(from, children[c + 1] ?? last + 1)} `, make("small", {}, percent(weights[c])))))]),
      { caption: "Constituents of the best parse of the sentence, as they close up to the token; shaded rows close at it.", rowClass: (n) => (rows[n].last === at.token ? "chosen" : null) }));
  }

  // ---- stacks of stack attention and of recurrent models --------------------------------------------------------

  function stacks() {
    const found = now.stacks;
    if (!found) return show("stacks");
    const i = Math.min(at.token, found.tokens.length - (found.kind === "run" ? 0 : 1));
    const shade = (share) => make("span", { style: `background: rgba(0, 114, 178, ${(0.6 * share).toFixed(3)}); padding: 1px 6px` }, percent(share));
    if (found.kind === "attention") {
      show("stacks", found.layers.map((layer) => {
        const position = Math.min(at.token, found.tokens.length - 1);
        const [push, pop, none] = layer.actions[position];
        return make("div", { class: "item" }, make("h3", {}, `Layer ${layer.layer}`),
          make("p", {}, "push ", shade(push), " pop ", shade(pop), " no-op ", shade(none)),
          make("p", { class: "soft" }, `Stack of the likeliest actions: ${layer.replayed[position].map((j) => found.tokens[j]).join(" ") || "empty"}`),
          weightsCanvas({ n: found.tokens.length, now: position, weight: (a, b) => layer.attention[a][b] ?? 0, difference: false, name: `what is on top, layer ${layer.layer}` }),
          make("p", { class: "soft" }, "On top of the stack (column) after each token (row)."));
      }), found.predicted?.some(Boolean) ? make("p", {}, `It says: ${found.predicted.map((x) => x ?? "·").join(" ")}`) : null);
      return;
    }
    // Of a run the tokens are the sentence's own, without ROOT.
    const t = Math.min(Math.max(i - 1, 0), found.tokens.length - 1);
    const name = (j) => String(j);
    show("stacks",
      table(["token", ...found.actions.map((each) => ({ name: each, number: true })), ...(found.run ? [{ name: "heaviest run", number: false }, "state", { name: "stack", number: false }] : [])],
        found.tokens.map((text, k) => [text, ...found.shares[k].map(shade), ...(found.run ? [found.run[k][0], found.run[k][1], found.run[k][2].map(name).join(" ")] : [])]),
        { caption: `${found.stack} stack: shares of the actions after each token${found.run_log_share === null || found.run_log_share === undefined ? "" : `; the heaviest run has ${(100 * Math.exp(found.run_log_share)).toPrecision(3)}% of the weight`}`, rowClass: (k) => (k === t ? "chosen" : null) }),
      found.tops ? make("p", {}, "On top now: ", found.tops[t].map((share, symbol) => [`symbol ${symbol} `, shade(share), " "])) : null,
      found.states ? make("p", {}, "State now: ", found.states[t].map((share, q) => [`q${q} `, shade(share), " "])) : null);
  }

  /** Of TreeReg: a row for each node of the greedy tree; under a word the score of splitting before it. */
  function splits() {
    if (!now.splits?.length) return show("splits");
    const rows = now.splits.map(({ first, past, split, scores }) => {
      const weights = scores.map((score) => Math.exp(score - Math.max(...scores)));
      const all = weights.reduce((a, b) => a + b, 0);
      const cell = (w) => make(w === split ? "b" : "span", { style: `background: rgba(0, 114, 178, ${(0.6 * weights[w - first - 1] / all).toFixed(3)}); padding: 1px 6px` }, digits(scores[w - first - 1], 2));
      return now.words.map((_, w) => (w < first || w >= past ? "" : w === first ? "·" : cell(w)));
    });
    show("splits", table(now.words.map((name) => ({ name, number: true })), rows,
      { caption: "A row for each node of the tree that hidden states give, from the top down: it begins at the point; under a word, the score of splitting before it; bold: where it splits. Darker: more of the softmax over the row." }));
  }

  /** Scroll wide pictures so that the token is seen. */
  function follow() {
    const columns = panels.surprisals.place.querySelectorAll(".column");
    const word = panels.forest.place.querySelectorAll(".word");
    for (const [place, element] of [[panels.surprisals.place, columns[at.token - first()]], [panels.forest.place, word[word.length - 1]]]) {
      if (!element || place.scrollWidth <= place.clientWidth) continue;
      const { left, right } = element.getBoundingClientRect(), frame = place.getBoundingClientRect();
      if (right > frame.right - 60) place.scrollLeft += right - frame.right + 120;
      else if (left < frame.left + 60) place.scrollLeft -= frame.left - left + 120;
    }
  }

  function whole() {
    const parts = [];
    for (const [name, parse] of [["best parse", now.best], ["gold tree", now.gold]]) if (parse) parts.push(make("p", {}, `${name}${parse.joint === null ? "" : `, log2 p(x, y) = ${digits(parse.joint, 2)}`}: `, make("code", {}, parse.tree)));
    if (now.dropped !== null) parts.push(make("p", { class: "soft" }, `The search is estimated to have dropped ${now.dropped < 1e-4 ? now.dropped.toExponential(1) : percent(now.dropped, 2) + "%"} of p(x).`));
    show("whole", ...parts);
  }

  // ---- a minimal pair: two sentences side by side, and where their surprisals part --------------------------------

  /** Columns of two lists of tokens: those in common are aligned (longest common subsequence). */
  function aligned(a, b) {
    const length = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
    for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) length[i][j] = a[i] === b[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
    const columns = [];
    let i = 0, j = 0, left = [], right = [];
    const flush = () => {
      for (let n = 0; n < Math.max(left.length, right.length); n++) columns.push([left[n] ?? null, right[n] ?? null]);
      left = []; right = [];
    };
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j] && length[i][j] === length[i + 1][j + 1] + 1) { flush(); columns.push([i++, j++]); }
      else if (j >= b.length || (i < a.length && length[i + 1][j] >= length[i][j + 1])) left.push(i++);
      else right.push(j++);
    }
    flush();
    return columns;
  }

  async function drawPair(m, place) {
    const [good, bad] = await Promise.all([trace(0, m), trace(1, m)]);
    const columns = aligned(good.tokens, bad.tokens).filter(([i, j]) => (i === null || good.surprisals[i] !== null) && (j === null || bad.surprisals[j] !== null));
    const bits = (one, k) => (k === null ? null : one.surprisals[k]);
    let sum = 0;
    const rows = columns.map(([i, j]) => {
      const difference = (bits(bad, j) ?? 0) - (bits(good, i) ?? 0);
      sum += difference;
      return [shown(good, i), bits(good, i), shown(bad, j), bits(bad, j), difference, sum];
    });
    const parts = rows.reduce((best, row, c) => (Math.abs(row[4]) > Math.abs(rows[best][4]) ? c : best), 0);
    const picture = make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `${models[m]}: the pair` },
      barsDrawing({ labels: rows.map((row) => (row[0] === row[2] ? row[0] : `${row[0] || "–"}\n${row[2] || "–"}`)), values: [rows.map((row) => row[1]), rows.map((row) => row[3])], colours: [colour(0), colour(1)], now: null, mark: parts, numbers: rows.map((row) => signed(row[4], 1)), name: `surprisals of both sentences under ${models[m]}`, room: place.clientWidth || 900 }));
    const total = (one) => one.surprisals.reduce((a, b) => a + (b ?? 0), 0);
    place.replaceChildren(
      make("h3", {}, models[m]),
      make("p", {}, make("b", { class: sum > 0 ? "right" : "wrong" }, sum > 0 ? "right" : sum < 0 ? "wrong" : "a tie"), `: good ${digits(total(good), 2)} bits, bad ${digits(total(bad), 2)}; bad ${MINUS} good = ${signed(sum, 2)}. `,
        `They part most at ${rows[parts][0] === rows[parts][2] ? `“${rows[parts][0]}”` : `“${rows[parts][0] || "–"}” / “${rows[parts][2] || "–"}”`} (${signed(rows[parts][4], 2)} bits).`),
      picture,
      opening("Table", () => table(["good", "bits", "bad", "bits", { name: `bad ${MINUS} good`, number: true }, { name: "up to here", number: true }], rows.map((row) => [...row.slice(0, 4), signed(row[4]), signed(row[5])]), { rowClass: (c) => (c === parts ? "chosen" : null) })));
  }

  const pairs = pair ? models.map(() => make("div", { class: "pair" })) : [];

  // The tree stands beside the hypotheses where it has room there, else above them.
  const broad = make("div"), narrow = make("div");
  broad.append(panel("forest", "The stack of the chosen hypothesis", (place) => saveSvg("tree", place), () => make("button", { click: () => download("tree.tex", panels.forest.latex() + "\n", "text/plain") }, "LaTeX")));

  // ---- page --------------------------------------------------------------------------------------------------

  const described = page.searches.map((search, m) => `${models[m]}: ${search.kind ?? ""} ${search.model ?? ""}${search.beam ? `, beam ${typeof search.beam === "object" ? JSON.stringify(search.beam) : search.beam}` : ""}`);
  frame(
    pair ? make("section", {}, make("h2", {}, "The pair"),
      make("div", {}, make("span", { class: "key" }, make("svg", { width: 22, height: 14 }, make("rect", { x: 1, y: 1, width: 20, height: 12, fill: colour(0) })), `good: ${sentences[0]}`), make("span", { class: "key" }, make("svg", { width: 22, height: 14 }, make("rect", { x: 1, y: 1, width: 20, height: 12, fill: "none", stroke: colour(1), "stroke-width": 2 })), `bad: ${sentences[1]}`), make("p", { class: "soft" }, `Bars: surprisal of each token, bits; above them bad ${MINUS} good.`)),
      pairs) : null,
    pair ? make("h2", {}, "Token by token") : null,
    make("div", { class: "bar" }, make("div", { class: "controls" }, chooseSentence, chooseModel, back, slider, on, where)),
    panel("written", "Surprisal of each word (bits)", (place) => saveSvg("words", place)),
    panel("surprisals", "Surprisal (bits)", (place) => saveSvg("surprisals", place), () => saveTsv("surprisals", ["model", "position", "token", "bits"], () => panels.surprisals.rows()), () => opening("Table", () => table(["model", "position", "token", "bits"], panels.surprisals.rows()))),
    broad,
    make("div", { class: "two" },
      make("div", {}, panel("beam", "Hypotheses"), panel("time", "The beam over time", (place) => saveSvg("beam", place)), panel("actions", "Actions of the chosen hypothesis")),
      make("div", {}, narrow, panel("tape", "Stack tape: depth of each position (column) after each token (row)", (place) => saveSvg("tape", place)), panel("attachment", "What the token attaches to, over the whole beam"))),
    panel("composed", "Composition: what constituents are made of"),
    panel("stacks", "Stacks"),
    panel("splits", "Scores of splits"),
    panel("attention", "Attention"),
    panel("whole", "The whole sentence"),
    make("p", { class: "soft noprint" }, "Keys: ← → step through the tokens, Home and End go to the ends, 1 to 9 choose a hypothesis. The address keeps what you see. "),
    make("p", { class: "soft" }, described.join(" · "), " ", copyButton("Copy the methods sentence", page.methods)),
  );
  await go({ token: at.token, hypothesis: at.hypothesis });
  for (const [m, place] of pairs.entries()) await drawPair(m, place);
  document.body.dataset.ready = "true";
  window.addEventListener("resize", () => draw(), { signal: left.signal });
  window.addEventListener("hashchange", () => go({ sentence: Math.min(Math.max(Number(state.get("sentence", "1")) - 1, 0), sentences.length - 1), model: Math.max(models.indexOf(state.get("model", models[0])), 0), token: Number(state.get("token", "0")), hypothesis: Number(state.get("hypothesis", "1")) - 1 }), { signal: left.signal });
};
