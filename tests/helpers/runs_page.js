// What a page of runs shows, for tests: its tables, the data of its charts, the parses of its sentences.

const bold = all("td b").map((each) => each.textContent), [caption] = all("main p.soft").map((each) => each.textContent);
const found = { table: cells(all("table")[0]), settings: cells(all("table")[1]), bold, caption, samples: {}, figures: {} };
for (const figure of all("figure")) {
  figure.querySelector("details").open = true;
  await later();
  found.figures[figure.firstChild.textContent] = [cells(figure), figure.querySelector(".chart").spec.encoding];
}
for (const details of all("details").filter((each) => each.firstChild.textContent.includes(": "))) {
  details.open = true;
  await later();
  found.samples[details.firstChild.textContent] = [cells(details), details.querySelectorAll("p").at(-1).textContent];
}
return found;
