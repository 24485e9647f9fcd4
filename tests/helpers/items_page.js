// What the list of items of a page of results shows after each of some steps: [control, value].

const items = one("#blimp").querySelectorAll("details").find((each) => each.firstChild.textContent.startsWith("Items, "));
items.open = true;
for (let n = 0; n < 200 && !items.querySelector(".found"); n++) await later();
const found = [];
for (const [name, value] of steps) {
  if (name === "turn") {
    const button = items.querySelectorAll("button").find((each) => each.textContent === value);
    if (button.getAttribute("disabled") === null) button.click();
  } else {
    write(name === "find" ? items.querySelector("input") : items.querySelectorAll("select")[["show", "group", "sort"].indexOf(name)], value);
  }
  await later();
  found.push([items.querySelector(".found").textContent, items.querySelectorAll("tbody button.link").map((each) => each.textContent)]);
}
return found;
