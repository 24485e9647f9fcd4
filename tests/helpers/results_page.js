// What a page of results shows, for tests: tables as lists of cells, what charts were to draw, what lists hold.

const below = (place, heading) => {
  const found = place.querySelectorAll("h3").find((each) => each.textContent === heading);
  const all = found?.parentNode.children ?? [];
  return found ? all[all.indexOf(found) + 1] : null;
};
const table = (place) => place && {
  caption: place.querySelector("p")?.textContent,
  cells: cells(place),
  marked: place.querySelectorAll("tbody tr").map((row) => row.classList.contains("chosen")),
};
const options = (field) => field.querySelectorAll("option").map((each) => [each.getAttribute("value"), each.textContent]);
const until = async (ready) => { for (let n = 0; n < 200 && !ready(); n++) await later(); };

const main = all("section").find((each) => each.firstChild.textContent === "Main scores");
const found = { main: cells(main.querySelector("table")), by_region: {} };
for (const details of main.querySelectorAll("details")) {
  details.open = true;
  await later();
  found.seeds = cells(details);
}

for (const task of ["blimp", "sg"]) {
  const section = one(`#${task}`);
  const [by, sorted] = section.querySelectorAll("select");
  const of = (found[task] = { levels: {}, drawn: {}, saved: {}, orders: {} });
  for (const [level] of options(by)) {
    write(by, level);
    await later();
    const figure = section.querySelector("figure");
    figure.querySelector("details").open = true;
    await later();
    of.levels[level] = cells(figure);
    of.drawn[level] = figure.querySelector(".chart").spec.data.values;
    figure.querySelectorAll("button").find((each) => each.textContent === "TSV").click();
    of.saved[level] = await lastSaved();
  }
  for (const [order] of options(sorted)) {
    write(sorted, order);
    await later();
    of.orders[order] = section.querySelector(".chart").spec.layer.at(-1).encoding.y.sort;
  }
  of.means = table(below(section, "Means over seeds"));
  of.differences = table(below(section, "Differences between models"));
}

found.suites = cells(one("#sg .suites"));
for (const button of all("#sg .suites button")) {
  button.click();
  const place = one("#sg .two .item");
  await until(() => place.textContent.includes(`${button.textContent}: `));
  await later();
  const details = place.querySelector("details");
  details.open = true;
  await later();
  const formulas = place.querySelectorAll("code").map((each) => each.textContent);
  found.by_region[button.textContent] = { cells: cells(details), formulas, terms: cells(place.querySelectorAll("table").at(-1)) };
}

for (const task of ["blimp", "sg", "parse"]) {
  const items = one(`#${task}`).querySelectorAll("details").find((each) => each.firstChild.textContent.startsWith("Items, "));
  items.open = true;
  await until(() => items.querySelector(".found"));
  const of = (found[`${task}-items`] = { title: items.firstChild.textContent, found: {}, sorted: {}, groups: {}, opened: [] });
  const number = () => items.querySelector(".found").textContent;
  const fields = () => items.querySelectorAll("select");  // which items, of which group if there are several, in which order
  for (const [value, text] of options(fields()[0])) {
    write(fields()[0], value);
    of.found[text] = number();
  }
  write(fields()[0], "");
  for (const [value] of fields().length > 2 ? options(fields()[1]) : []) {
    write(fields()[1], value);
    of.groups[value] = number();
  }
  if (fields().length > 2) write(fields()[1], "");
  for (const [value, text] of options(fields().at(-1))) {
    write(fields().at(-1), value);
    of.sorted[text] = cells(items.querySelector("table"));
  }
  write(fields().at(-1), "");
  const turn = (way) => {
    const button = items.querySelectorAll("button").find((each) => each.textContent === way);
    const may = button.getAttribute("disabled") === null;
    if (may) button.click();
    return may;
  };
  of.listed = [];
  do of.listed.push(...items.querySelectorAll("tbody button.link").map((each) => each.textContent)); while (turn("next →"));
  while (turn("← previous"));
  const tokens = (place) => ({ of: place.querySelector("b").textContent, tokens: place.querySelectorAll("span").map((each) => [each.firstChild.textContent, each.lastChild.textContent]) });
  for (let i = 0; i < 15; i++) {
    items.querySelectorAll("tbody button.link")[i]?.click();
    of.opened.push(items.querySelectorAll("tr .item .tokens").map(tokens));
    of.command ??= items.querySelector("tr .item code")?.textContent;
  }
}

const reading = all("section").find((each) => each.firstChild.textContent === "Reading times" && each.querySelector(".chart"));
found.gains = reading.querySelector(".chart").spec.data.values;
return found;
