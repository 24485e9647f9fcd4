"use strict";
// The page of a table of stimuli: effects at one region, differences by region, means, and the items one by one.

kinds.stimuli = async () => {
  const ROWS = 20;  // items on a page of the list
  const { models } = page;
  const text = (name) => ({ name, number: false });
  const drawn = (title, name, rows, [condition, region, n]) => figure(title, name, [text("model"), text(condition), text(region), "mean (bits)", "from", "to", n],
    () => rows.map((row) => [row.series, row.condition, row.label, row.mean, row.low, row.high, row.n]));
  const where = page.region ? ` at region ${page.region}` : "";
  const atRegion = page.at_region.length ? drawn(`Mean surprisal${where}`, "region", page.at_region, ["condition", "level", "items"]) : null;
  const differences = page.differences.length && page.region ? drawn("Differences by region", "differences", page.differences, ["effect", "region", "items"]) : null;
  const means = drawn("Mean surprisal by region and condition", "regions", page.rows, ["condition", "region", "n"]);
  const critical = page.effects.filter((row) => row.region === page.critical);
  const drawMeans = () => chart(means.place, page.chart, page.rows, { label: "Mean surprisal by region and condition", facet: true });
  const meansAndText = [means.element, make("p", { class: "soft" }, "Means over rows, bits, with 95% intervals of the mean (Student's t); none where there is one row.")];
  const list = make("div", { "aria-live": "polite" });
  const find = make("input", { type: "search", "aria-label": "search items", placeholder: "search", value: state.get("find"), input: () => { state.set({ find: find.value, page: "" }); draw(); } });
  let items = null;
  const section = make("details", { open: Boolean(state.get("find") || state.get("page")) }, make("summary", {}, `Items, one by one (${page.items.toLocaleString("en")})`),
    make("div", { class: "controls" }, find), list);
  section.addEventListener("toggle", load);

  async function load() {
    if (!section.open || items) return;
    items = await packed("items");
    draw();
  }

  function draw() {
    if (!items) return;
    const wanted = find.value.toLowerCase();
    const found = items.filter(([item, conditions]) => !wanted || item.toLowerCase() === wanted || Object.values(conditions).some((of) => Object.values(of).some((words) => words.map(([text]) => text).join(" ").toLowerCase().includes(wanted))));
    const last = Math.max(0, Math.ceil(found.length / ROWS) - 1);
    const at = Math.min(Number(state.get("page", "0")), last);
    const move = (to) => { state.set({ page: to || "" }); draw(); };
    list.replaceChildren(
      make("div", { class: "controls" },
        make("span", { class: "found" }, `${found.length.toLocaleString("en")} of ${items.length.toLocaleString("en")} items`),
        make("button", { disabled: at <= 0, click: () => move(at - 1) }, "← previous"),
        make("button", { disabled: at >= last, click: () => move(at + 1) }, "next →")),
      ...found.slice(ROWS * at, ROWS * at + ROWS).map(([item, conditions]) => make("div", { class: "item" },
        make("h3", {}, item ? `Item ${item}` : "Sentences"),
        Object.entries(conditions).map(([condition, of]) => models.filter((name) => of[name]).map((name) => heat(`${condition}, ${name}`, of[name]))))));
  }

  /** The regions or words of a sentence, the darker the more bits they have. */
  function heat(name, words) {
    const bits = words.map(([, value]) => value ?? 0);
    const most = Math.max(...bits, 1);
    const missing = words.filter(([, value]) => value === null).length;
    return make("div", { class: "tokens" }, make("b", {}, `${name} ${digits(bits.reduce((a, b) => a + b, 0), 1)}${missing ? `, ${missing} missing` : ""}:`),
      words.map(([text, value]) => make("span", { style: `background: rgba(213, 94, 0, ${(0.55 * (value ?? 0) / most).toFixed(3)})` }, `${text} `, make("small", {}, digits(value, 1)))));
  }

  const predicted = critical.some((row) => "ms" in row);
  const ends = (low, high) => (low === null ? null : `[${digits(low)}, ${digits(high)}]`);
  const effects = critical.length ? make("section", {}, make("h2", {}, `Effects${where}, within items`),
    table([text("model"), "effect", "levels", ...["bits", "95%", "bootstrap", "t", "df", "p", "items", ...(predicted ? ["ms", "95%"] : [])].map((name) => ({ name, number: true }))],
      critical.map((row) => [row.model, row.effect, row.contrast.replaceAll(" − ", "\u00a0−\u00a0"), digits(row.bits), ends(row.low, row.high), ends(row.boot_low, row.boot_high), digits(row.t), row.df, probability(row.p), row.items, ...(predicted ? [digits(row.ms, 1), ends(row.ms_low, row.ms_high)] : [])])),
    make("p", { class: "soft" }, `Means over the items that have all the conditions, with 95% intervals, t and p by Student's t over ${page.over}; p is not corrected. Bootstrap: the interval over items, from ten items on.`),
    make("div", { class: "controls" }, copyButton("Copy the results sentence", page.results), copyButton("Copy the methods sentence", page.methods))) : null;
  frame(
    atRegion && make("section", {}, atRegion.element, make("p", { class: "soft" }, "Means over the items that have all the conditions, bits, with 95% intervals within items (Morey 2008).")),
    effects,
    differences && make("section", {}, differences.element, make("p", { class: "soft" }, `Means over items, bits, with 95% intervals (Student's t over ${page.over}). Dashed: no difference.`)),
    make("section", {}, effects ? opening("Mean surprisal by region and condition", () => { setTimeout(drawMeans); return meansAndText; }, page.live) : meansAndText),
    section,
  );
  if (atRegion) await chart(atRegion.place, page.at_region_chart, page.at_region, { label: `Mean surprisal${where}`, facet: true });
  if (differences) await chart(differences.place, page.differences_chart, page.differences, { label: "Differences by region", facet: true });
  if (!effects) await drawMeans();
  await load();
  document.body.dataset.ready = "true";
};
