"use strict";
// What all pages share: reading the data, making elements, the state in the address, charts, tables, downloads.

let page = JSON.parse(document.getElementById("document").textContent);
const kinds = {};  // functions that draw a page, by its kind
let left = new AbortController();  // ends what listens beyond the page's own elements, when another one is drawn

// The same as COLOURS, SHAPES and DASHES of charts.py: a number always means the same model.
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];
const colour = (i) => COLOURS[i % COLOURS.length];

/** An element: attributes (functions are listeners), then children, which are elements or text. */
function make(name, attributes = {}, ...children) {
  const svg = SVG_NAMES.has(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}
const SVG_NAMES = new Set(["svg", "g", "rect", "line", "path", "circle", "text", "polygon", "desc", "title", "defs"]);

/** Data that is packed (JSON under gzip, in Base64), unpacked once. */
function packed(name) {
  unpacking[name] ??= (async () => {
    const bytes = Uint8Array.from(atob(document.getElementById(`packed-${name}`).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  })();
  return unpacking[name];
}
const unpacking = {};

// ---- the state, in the part of the address after # -------------------------------------------------------------

const state = {
  get: (name, otherwise = "") => new URLSearchParams(location.hash.slice(1)).get(name) ?? otherwise,
  /** Set some; "" and null are taken out. The address can be sent to someone, who sees the same. */
  set(values) {
    const all = new URLSearchParams(location.hash.slice(1));
    for (const [name, value] of Object.entries(values)) {
      if (value === "" || value === null || value === undefined) all.delete(name);
      else all.set(name, value);
    }
    history.replaceState(null, "", `#${all}`);
  },
};

// ---- numbers, tables, downloads --------------------------------------------------------------------------------

const MINUS = "−";
const digits = (x, n = 2) => (x === null || x === undefined ? "–" : x.toFixed(n).replace(/^-(?=[0.]*$)/, "").replace("-", MINUS));
// Of numbers beside each other: two, of smaller ones than 1 four, or as many as show three digits of the smallest.
const decimals = (...numbers) => {
  const sizes = numbers.filter((x) => x).map(Math.abs);
  return !sizes.length || Math.max(...sizes) >= 1 ? 2 : Math.min(Math.max(4, 2 - Math.floor(Math.log10(Math.min(...sizes)))), 8);
};
const percent = (x, n = 1) => (x === null || x === undefined ? "–" : digits(100 * x, n));
const signed = (x, n = 2) => (x > 0 ? "+" : "") + digits(x, n);
const probability = (p) => (p === null || p === undefined ? "–" : p === 0 ? `< 1e${MINUS}300` : p < 0.0001 ? p.toExponential(1).replace("-", MINUS) : p.toFixed(4));

/** A table: columns are names or {name, number}; cells are text, numbers or elements. */
function table(columns, rows, { caption = null, rowClass = () => null } = {}) {
  const numeric = columns.map((column, i) => column.number ?? rows.every((row) => typeof row[i] === "number" || row[i] === null));
  const cell = (value) => (value instanceof Node ? value : value === null || value === undefined ? "–" : typeof value === "number" && !Number.isInteger(value) ? digits(value, Math.max(3, decimals(value) - 1)) : String(value));
  return make("div", {}, caption && make("p", { class: "soft" }, caption), make("div", { class: "scroll" }, make("table", { "aria-label": caption },
    make("thead", {}, make("tr", {}, columns.map((column, i) => make("th", { scope: "col", class: numeric[i] ? "number" : null }, column.name ?? column)))),
    make("tbody", {}, rows.map((row, n) => make("tr", { class: rowClass(n) }, row.map((value, i) => make("td", { class: numeric[i] ? "number" : null }, cell(value)))))))));
}

/** Something that opens, and is made only then. */
function opening(summary, content, open = false) {
  const details = make("details", { open }, make("summary", {}, summary));
  const fill = () => details.open && details.children.length === 1 && details.append(...[content()].flat());
  details.addEventListener("toggle", fill);
  if (open) fill();
  return details;
}

function download(name, text, type) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** An SVG that stands alone: its computed fonts and colours written into it. */
function standalone(svg) {
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const from = svg.querySelectorAll("*"), to = copy.querySelectorAll("*");
  from.forEach((element, i) => {
    if (element.tagName !== "text") return;
    const style = getComputedStyle(element);
    to[i].setAttribute("font-family", "Helvetica, Arial, sans-serif");
    to[i].setAttribute("font-size", style.fontSize);
    to[i].setAttribute("font-weight", style.fontWeight);
    to[i].setAttribute("fill", style.fill);
  });
  return new XMLSerializer().serializeToString(copy);
}

const saveSvg = (name, place) => make("button", { click: () => download(`${name}.svg`, standalone(place.querySelector("svg[role=img]")), "image/svg+xml") }, "SVG");
const saveTsv = (name, columns, rows) => make("button", {
  click: () => download(`${name}.tsv`, [columns, ...rows()].map((row) => row.map((x) => String(x ?? "").replace(/[\t\r\n]/g, " ")).join("\t")).join("\n") + "\n", "text/tab-separated-values"),
}, "TSV");

function copyButton(label, text) {
  const button = make("button", {
    async click() {
      const said = typeof text === "function" ? text() : text;
      try {
        await navigator.clipboard.writeText(said);
        button.textContent = "copied";
      } catch {
        // From a file some browsers allow no clipboard: the text is shown, selected.
        const area = make("textarea", { rows: 4, cols: 60, readonly: true, "aria-label": label }, said);
        button.after(area);
        area.select();
      }
    },
  }, label);
  return button;
}

// ---- charts (Vega-Lite) ----------------------------------------------------------------------------------------

/** Draw a chart's template with these rows into a place, as wide as that is; again when the window changes. */
function chart(place, template, rows, { label, sort = null, facet = false, caption = false } = {}) {
  const draw = async () => {
    const spec = structuredClone(template);
    spec.data = { values: rows };
    const room = Math.max(place.clientWidth, 260);
    const narrow = room < 560;
    spec.autosize = { type: facet ? "pad" : "fit-x", contains: "padding" };
    (facet ? spec.spec : spec).width = facet ? room - 90 : room;
    for (const layer of spec.layer ?? spec.spec?.layer ?? [spec]) {
      const { y, color, shape, strokeDash } = layer.encoding;
      if (caption && y) y.title = null;  // the figure's caption says it
      if (sort && y) y.sort = sort;
      if (y?.axis && narrow) y.axis.labelLimit = Math.round(room * 0.42);
      for (const each of [color, shape, strokeDash]) if (each?.legend && narrow) each.legend.columns = 1;
    }
    await vegaEmbed(place, spec, { actions: false, ast: true, renderer: "svg", tooltip: { theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light" }, logLevel: 1 });
    const svg = place.querySelector("svg");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
  };
  place.redraw = draw;
  return draw();
}

let resized = null, lastWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === lastWidth) return;
  lastWidth = window.innerWidth;
  clearTimeout(resized);
  resized = setTimeout(() => document.querySelectorAll(".chart").forEach((place) => place.redraw?.()), 150);
});

/** A figure: a chart, what it shows in words, its SVG, and its table under it (of other cells than are saved, perhaps). */
function figure(title, name, columns, cells, shown = cells) {
  const place = make("div", { class: "chart" });
  const under = make("div", { class: "controls noprint" }, opening("Table", () => table(columns, shown())), saveSvg(name, place), saveTsv(name, columns.map((c) => c.name ?? c), cells));
  return { element: make("figure", {}, make("figcaption", {}, title), place, under), place };
}

// ---- frame -----------------------------------------------------------------------------------------------------

function selection(label, options, value, change) {
  const select = make("select", { change: () => change(select.value) }, options.map(([key, text]) => make("option", { value: key, selected: key === value }, text)));
  return make("label", {}, label, select);
}

/** The top of a page, its main part, and where all of it comes from. */
function frame(...content) {
  const made = page.provenance;
  const commit = made.code?.commit ? `, commit ${made.code.commit.slice(0, 12)}${made.code.modified ? " (modified)" : ""}` : "";
  (document.getElementById("shown") ?? document.body).prepend(
    make("header", {}, make("h1", {}, page.title), page.notes.map((note) => make("p", { class: "note" }, note))),
    make("main", {}, content),
    make("footer", { class: "soft" },
      make("p", {}, `Made by pdtools ${made.code?.version ?? ""}${commit}, ${made.time}.${page.live ? "" : " This file needs no network."}`),
      opening("Provenance", () => make("pre", {}, JSON.stringify(made, null, 1)))));
}
