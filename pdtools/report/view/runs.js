"use strict";
// The page of runs: a table, what differs in their settings, and the charts of their records.

kinds.runs = async () => {
  const runs = page.runs;
  const drawn = [];
  const banded = (rows) => rows.some((row) => "low" in row);  // means over seeds, and their range
  const charts = page.charts.map(({ id, title, chart: template, rows }) => {
    const { element, place } = figure(title, id, ["run", "step", title, ...(banded(rows) ? ["lowest", "highest"] : [])],
      () => rows.map((row) => [row.series, row.x, row.y, ...(banded(rows) ? [row.low ?? null, row.high ?? null] : [])]));
    drawn.push(() => chart(place, template, rows, { label: `${title} of ${page.models.join(", ")}, by step`, caption: true }));
    return element;
  });
  // Losses of different kinds of models have different parts (words, attachments): the lowest is shown of one kind only.
  const comparable = !page.settings.some(([name]) => name === "model");
  const best = comparable ? Math.min(...runs.map((run) => run.best_loss ?? Infinity)) : Infinity;
  frame(
    table(
      [{ name: "run", number: false }, "steps", "best step", { name: "best validation loss", number: true }, { name: "tokens", number: true }, { name: "minutes", number: true }],
      runs.map((run) => [run.name, run.step, run.best_step,
        make(run.best_loss === best ? "b" : "span", {}, digits(run.best_loss, 4)), run.tokens?.toLocaleString("en"), run.seconds === null ? null : digits(run.seconds / 60, 1)]),
      { caption: comparable ? null : "Compare losses of models of one kind only: with an attachment head, for example, the loss counts attachments too." },
    ),
    page.settings.length ? make("section", {}, make("h2", {}, "What differs in their settings"), table(["setting", ...page.models], page.settings.map((row) => row.map((x) => (x === null ? "–" : typeof x === "string" ? x : JSON.stringify(x)))))) : null,
    make("h2", {}, "Records"),
    make("div", { class: "grid" }, charts),
    ...parses(),
    make("h2", {}, "Recipes"),
    runs.map((run) => opening(run.name, () => table(["setting", "value"], Object.entries(run.recipe).map(([name, value]) => [name, JSON.stringify(value)])))),
  );
  for (const draw of drawn) await draw();
  document.body.dataset.ready = "true";

  /** A few validation sentences, parsed anew at each evaluation: their trees where they change. */
  function parses() {
    const some = runs.filter((run) => run.samples.length);
    if (!some.length) return [];
    return [make("h2", {}, "Validation sentences, parsed at each evaluation"), some.map((run) => run.samples.map((sample) => {
      const rows = sample.parses.map(([step, tree, joint], i) => [step, joint, tree === sample.gold ? make("span", { class: "right" }, "the gold tree") : i && tree === sample.parses[i - 1][1] ? "the same" : make("code", {}, tree)]);
      return opening(`${run.name}: ${sample.text}`, () => [table(["step", { name: "log p(x, y), nats", number: true }, "parse"], rows), make("p", { class: "soft" }, "gold: ", make("code", {}, sample.gold))], some.length === 1);
    }))];
  }
};
