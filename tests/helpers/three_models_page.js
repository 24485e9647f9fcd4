// What a page of three models shows, for tests: differences, what is looked for, trees, gains.

const details = (place, begins) => place.querySelectorAll("details").find((each) => each.firstChild.textContent.startsWith(begins));
const until = async (ready) => { for (let n = 0; n < 200 && !ready(); n++) await later(); };
const found = {};
for (const task of ["blimp", "sg", "parse", "reading"]) {
  const section = one(`#${task}`);
  const place = section.querySelectorAll("h3").find((each) => each.textContent === "Differences between models").parentNode;
  const table = place.children[place.children.findIndex((each) => each.textContent === "Differences between models") + 1];
  found[task] = { caption: table.querySelector("p").textContent, cells: cells(table), marked: table.querySelectorAll("tbody tr").map((row) => row.classList.contains("chosen")) };
}

const items = details(one("#blimp"), "Items, ");
items.open = true;
await until(() => items.querySelector(".found"));
const input = items.querySelector("input");
found.search = {};
for (const words of ["BAD agr_1", "good binding 8", "nothing"]) {
  write(input, words);
  found.search[words] = items.querySelectorAll("tbody button.link").map((each) => each.textContent);
}
write(input, "");
items.querySelectorAll("button").find((each) => each.textContent === "next →").click();
found.pager = items.querySelectorAll(".controls .soft").map((each) => each.textContent);

const parses = details(one("#parse"), "Items, ");
parses.open = true;
await until(() => parses.querySelector(".found"));
parses.querySelectorAll("tbody button.link")[3].click();
found.trees = parses.querySelectorAll("tr .item .text").map((each, i) => [parses.querySelectorAll("tr .item h3")[i].textContent, each.textContent]);
found.gold = parses.querySelectorAll("tbody tr .text").map((each) => each.textContent)[0];

one("#sg").querySelectorAll(".suites button").find((each) => each.textContent === "fgd").click();
await until(() => one("#sg .item figcaption").textContent.startsWith("fgd:"));
one("#sg .two .item").querySelectorAll("button").find((each) => each.textContent === "List its items").click();
await until(() => details(one("#sg"), "Items, ").querySelector(".found"));
await later();
found.listed = details(one("#sg"), "Items, ").querySelectorAll("tbody button.link").map((each) => each.textContent);
found.first_conditions = details(one("#sg"), "Items, ").querySelectorAll("tbody .text").map((each) => each.textContent);

const reading = all("section").find((each) => each.firstChild.textContent === "Reading times" && each.querySelector(".chart"));
details(reading, "Table").open = true;
await later();
found.gains = cells(details(reading, "Table"));
return found;
