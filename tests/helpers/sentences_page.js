// What a page of sentences shows of each model, token by token and hypothesis by hypothesis, for tests.

const texts = (selector) => all(selector).map((each) => each.textContent);
const shown = (name) => (one(`#panel-${name}`).parentNode.hidden ? null : one(`#panel-${name}`));
const select = all(".bar select").at(-1);
const models = select ? select.querySelectorAll("option").map((each) => each.textContent) : [page.models[0]];
const found = {};

for (const [m, model] of models.entries()) {
  if (select) write(select, m);
  await later();
  const trace = await packed(`trace-0-${m}`);
  const of = (found[model] = { steps: [], sums: one("#panel-surprisals .keys .soft").textContent, ancestry: trace.steps.map((_, k) => ancestry(trace.steps, k)) });
  const slider = one("input[type=range]");
  for (let k = 1; k < trace.tokens.length; k++) {
    write(slider, k);
    await later();
    const step = { where: one(".where").textContent, hypotheses: [] };
    of.steps.push(step);
    step.attachment = shown("attachment") && shown("attachment").querySelectorAll("span").map((each) => each.textContent);
    step.bars = shown("surprisals").querySelectorAll(".column").map((each) => each.querySelectorAll("text").map((text) => text.textContent));
    step.composed = shown("composed") && all("#panel-composed tbody tr").map((row) => [row.getAttribute("class") === "chosen", row.querySelector("td").textContent, ...row.querySelectorAll("span").map((each) => each.textContent)]);
    if (!shown("beam")) continue;
    step.beam = cells(one("#panel-beam"));
    step.caption = one("#panel-beam .soft").textContent;
    for (let h = 0; h < step.beam.length - 1; h++) {
      all("#panel-beam button")[h].click();
      await later();
      step.hypotheses.push({
        stack: shown("forest").querySelector("svg").getAttribute("aria-label"),
        wrong: shown("forest").querySelector(".soft").textContent,
        dashed: shown("forest").querySelectorAll(".notgold").length,
        words: shown("forest").querySelectorAll(".word").map((each) => each.textContent),
        tape: shown("tape") && shown("tape").querySelectorAll(".cell").map((each) => Number(each.getAttribute("data-depth"))),
        open: shown("actions") && shown("actions").querySelector("p").textContent,
        // Heights of each column's parts, by colour, over the whole beam as 100.
        time: shown("time").querySelectorAll("g").map((column) => column.querySelectorAll(".hypothesis").map((each) => [each.getAttribute("fill"), Number(each.getAttribute("height")) / 1.2])),
      });
    }
  }
  of.whole = shown("whole").textContent;
  if (shown("splits")) of.splits = { rows: cells(shown("splits")), bold: texts("#panel-splits b") };
  if (shown("stacks")) of.stacks = { cells: cells(shown("stacks")), text: shown("stacks").textContent };
  if (shown("attention")) {
    const fields = () => shown("attention").querySelectorAll("select");
    of.attention = {};
    const terms = fields().length > 1 ? fields()[1].querySelectorAll("option").map((each) => each.getAttribute("value")) : ["weights"];
    write(slider, 3);
    await later();
    for (let layer = 0; layer < trace.attention.layers; layer++) for (const term of terms) {
      write(fields()[0], layer);
      if (terms.length > 1) write(fields()[1], term);
      for (const j of [0, 2]) shown("attention").querySelectorAll(".pickcolumn")[j].click();
      of.attention[`${layer} ${term}`] = {
        shares: shown("attention").querySelectorAll(".pickcolumn").map((each) => each.textContent),
        sums: cells(shown("attention")),
        drawn: shown("attention").querySelectorAll("canvas").map((each) => each.fills.length),
      };
      for (const j of [0, 2]) shown("attention").querySelectorAll(".pickcolumn")[j].click();
    }
    for (const j of [0, 2]) shown("attention").querySelectorAll(".pickcolumn")[j].click();
    write(slider, 1);
    await later();
    of.stepped_back = { shares: shown("attention").querySelectorAll(".pickcolumn").length, sums: cells(shown("attention")) };
    write(slider, 3);
    await later();
    for (const j of [0, 2]) shown("attention").querySelectorAll(".pickcolumn")[j].click();
  }
}
found.pairs = [];
for (const place of all(".pair")) {
  const details = place.querySelector("details");
  details.open = true;
  await later();
  found.pairs.push({ said: place.querySelectorAll("p")[0].textContent, rows: cells(details), bold: place.querySelectorAll(".column .strong").map((each) => each.textContent) });
}
return found;
