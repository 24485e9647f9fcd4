// What a page of three models shows of their stacks, bars and trees at one token, for tests; the third has other tokens.

const named = (place, name) => place.querySelectorAll("button").find((each) => each.textContent === name);
const numbers = (element, ...names) => names.map((name) => Number(element.getAttribute(name)));
const section = (name) => one(`#panel-${name}`).parentNode;
const select = all(".bar select").at(-1);
const found = { described: all("main p.soft").at(-1).textContent };

for (const [m, model] of page.models.entries()) {
  write(select, m);
  await later();
  const of = (found[model] = {});
  of.trees = [];
  for (let k = 1; k < (await packed(`trace-0-${m}`)).tokens.length; k++) {
    write(one("input[type=range]"), k);
    await later();
    named(section("forest"), "LaTeX").click();
    of.trees.push({
      latex: await lastSaved(),
      dashed: one("#panel-forest").querySelectorAll(".notgold").length,
      constituents: one("#panel-forest").querySelectorAll(".constituent").map((each) => each.querySelectorAll("line").map((line) => numbers(line, "x1", "x2"))),
      words: one("#panel-forest").querySelectorAll(".word").map((each) => [each.textContent, ...numbers(each, "x")]),
    });
  }
  write(one("input[type=range]"), 2);
  await later();
  // Bars: pictures of their own for models with other tokens.
  of.bars = one("#panel-surprisals").querySelectorAll("svg[role=img]").map((svg) => ({
    ticks: svg.children.filter((each) => each.tagName === "text").map((each) => each.textContent),
    columns: svg.querySelectorAll(".column").map((column) => ({
      texts: column.querySelectorAll("text").map((each) => each.textContent),
      bars: column.querySelectorAll("rect").slice(1).map((each) => [each.getAttribute("fill"), each.getAttribute("stroke"), ...numbers(each, "y", "height")]),
    })),
  }));
  named(section("surprisals"), "TSV").click();
  of.tsv = (await lastSaved()).split("\n").filter(Boolean).map((line) => line.split("\t"));
  of.shares = one("#panel-time").querySelectorAll("g").map((column) => column.querySelectorAll("title").map((each) => each.textContent));
  of.time_ticks = one("#panel-time svg").children.filter((each) => each.tagName === "text").map((each) => [each.textContent, ...numbers(each, "y")]);
  const tape = one("#panel-tape");
  of.tape_rows = tape.querySelector("svg").querySelectorAll("text").filter((each) => each.getAttribute("text-anchor") === "end").map((each) => each.textContent);
  tape.querySelector("details").open = true;
  await later();
  of.tape = cells(tape);
  if (section("stacks").hidden) continue;
  const stacks = one("#panel-stacks");
  of.stacks = { cells: cells(stacks), paragraphs: stacks.querySelectorAll("p").map((each) => each.textContent), fills: stacks.querySelectorAll("canvas").map((each) => each.fills) };
}
return found;
