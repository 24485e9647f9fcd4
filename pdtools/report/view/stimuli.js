"use strict";
// The page of a table of stimuli: curves by region and condition, and the items one by one.

(async () => {
  const ROWS = 20;  // items on a page of the list
  const { models, rows } = page;
  const columns = [{ name: "model", number: false }, "condition", "region", "mean (bits)", "from", "to", "n"];
  const shown = figure("Mean surprisal by region and condition", "regions", columns, () => rows.map((row) => [row.series, row.condition, row.label, row.mean, row.low, row.high, row.n]));
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
    return make("div", { class: "tokens" }, make("b", {}, `${name} ${digits(bits.reduce((a, b) => a + b, 0), 1)}:`),
      words.map(([text, value]) => make("span", { style: `background: rgba(213, 94, 0, ${(0.55 * (value ?? 0) / most).toFixed(3)})` }, `${text} `, make("small", {}, digits(value, 1)))));
  }

  frame(
    make("section", {}, shown.element, make("p", { class: "soft" }, "Means over rows, bits, with 95% intervals of the mean (Student's t); none where there is one row.")),
    page.paired.length ? make("section", {}, make("h2", {}, "Differences between conditions, within items"),
      table([{ name: "model", number: false }, "difference", { name: "region", number: false }, "mean (bits)", "from", "to", "items"], page.paired),
      make("p", { class: "soft" }, "Means over the items that have both conditions, with 95% intervals (Student's t).")) : null,
    section,
  );
  await chart(shown.place, page.chart, rows, { label: "Mean surprisal by region and condition", facet: true });
  await load();
  document.body.dataset.ready = "true";
})();
