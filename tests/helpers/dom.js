"use strict";
// Opens a page of `pdtools view` in node, with as much of a browser as the pages use, and evaluates a program in it:
//
//     node dom.js PAGE.html [STATE] < PROGRAM
//
// STATE goes after # into the address. PROGRAM is the body of an async function; what it returns is printed as JSON.
// Nothing is laid out: widths are as good as invented. Errors that the page does not catch end the process.

const fs = require("node:fs");
const vm = require("node:vm");

class Node {
  parentNode = null;
  remove() {
    if (this.parentNode) this.parentNode.childNodes = this.parentNode.childNodes.filter((each) => each !== this);
    this.parentNode = null;
  }
  after(...nodes) {
    const added = this.parentNode.adopt(nodes), all = this.parentNode.childNodes;
    all.splice(all.indexOf(this) + 1, 0, ...added);
  }
}

class Text extends Node {
  constructor(text) { super(); this.textContent = text; }
}

class Element extends Node {
  childNodes = [];
  attributes = new Map();
  listeners = {};
  dataset = {};
  scrollLeft = 0;
  clientWidth = 900;
  scrollWidth = 0;

  constructor(name) { super(); this.tagName = name; }

  // ---- attributes, and the properties that mirror them ----
  setAttribute(name, value) {
    this.attributes.set(name, String(value));
    if (this.tagName === "details" && name === "open") setTimeout(() => this.dispatch("toggle"));
  }
  getAttribute(name) { return this.attributes.get(name) ?? null; }
  flag(name, on) { on ? this.setAttribute(name, "") : this.attributes.delete(name); }
  get open() { return this.attributes.has("open"); }
  set open(on) { if (on !== this.open) this.flag("open", on); }
  get hidden() { return this.attributes.has("hidden"); }
  set hidden(on) { this.flag("hidden", on); }
  get disabled() { return this.attributes.has("disabled"); }
  set disabled(on) { this.flag("disabled", on); }
  get value() {
    if (this.written !== undefined) return this.written;
    if (this.tagName !== "select") return this.getAttribute("value") ?? "";
    const options = this.querySelectorAll("option");
    return (options.find((each) => each.attributes.has("selected")) ?? options[0])?.getAttribute("value") ?? "";
  }
  set value(text) { this.written = String(text); }
  get classList() {
    const all = () => new Set((this.getAttribute("class") ?? "").split(" ").filter(Boolean));
    const write = (names) => this.setAttribute("class", [...names].join(" "));
    return {
      contains: (name) => all().has(name),
      add: (name) => write(all().add(name)),
      toggle: (name, on) => { const names = all(); on ? names.add(name) : names.delete(name); write(names); },
    };
  }

  // ---- the tree ----
  adopt(nodes) {
    return nodes.map((each) => {
      const node = each instanceof Node ? each : new Text(String(each));
      node.remove();
      node.parentNode = this;
      return node;
    });
  }
  append(...nodes) { const all = this.adopt(nodes); this.childNodes.push(...all); }
  prepend(...nodes) { const all = this.adopt(nodes); this.childNodes.unshift(...all); }
  replaceChildren(...nodes) { for (const each of [...this.childNodes]) each.remove(); this.append(...nodes); }
  get children() { return this.childNodes.filter((each) => each instanceof Element); }
  get firstChild() { return this.childNodes[0] ?? null; }
  get lastChild() { return this.childNodes.at(-1) ?? null; }
  get textContent() { return this.childNodes.map((each) => each.textContent).join(""); }
  set textContent(text) { this.replaceChildren(text); }
  *descendants() { for (const each of this.children) { yield each; yield* each.descendants(); } }

  // ---- selectors: names, #ids, .classes and [attributes], one below the other ----
  matches(selector) {
    const parts = selector.trim().split(/\s+(?![^[]*\])/);
    if (!this.fits(parts.pop())) return false;
    let above = this.parentNode;
    while (parts.length && above) {
      if (above.fits?.(parts.at(-1))) parts.pop();
      above = above.parentNode;
    }
    return !parts.length;
  }
  fits(compound) {
    for (const [, name, id, group, attribute, value] of compound.matchAll(/^([\w*]+)|#([\w-]+)|\.([\w-]+)|\[([\w-]+)(?:=("[^"]*"|[^\]]*))?\]/g)) {
      if (name && name !== "*" && name !== this.tagName) return false;
      if (id && this.getAttribute("id") !== id) return false;
      if (group && !this.classList.contains(group)) return false;
      if (attribute && !this.attributes.has(attribute)) return false;
      if (attribute && value !== undefined && this.getAttribute(attribute) !== value.replace(/^"|"$/g, "")) return false;
    }
    return true;
  }
  querySelectorAll(selector) { return [...this.descendants()].filter((each) => each.matches(selector)); }
  querySelector(selector) { return this.querySelectorAll(selector)[0] ?? null; }
  closest(selector) { return this.matches(selector) ? this : this.parentNode?.closest?.(selector) ?? null; }

  // ---- events ----
  addEventListener(type, listener) { (this.listeners[type] ??= []).push(listener); }
  dispatch(type, event = {}) { return (this.listeners[type] ?? []).map((each) => each({ target: this, preventDefault() {}, ...event })); }
  click() { if (this.attributes.has("download")) saved.push(this); this.dispatch("click"); }
  focus() { document.activeElement = this; }
  select() {}
  scrollIntoView() {}
  getBoundingClientRect() { return { left: 0, right: 0 }; }
  /** A canvas remembers what was filled with what. */
  getContext() {
    this.fills ??= [];
    const { fills } = this;
    return { measureText: (text) => ({ width: 6 * text.length }), fillRect(...place) { fills.push([...place, this.fillStyle]); }, strokeRect() {} };
  }
}

const saved = [];  // links that were clicked to save something
const blobs = [];
const page = fs.readFileSync(process.argv[2], "utf-8");
const scripts = [...page.matchAll(/<script(?: type="([^"]*)" id="([^"]*)")?>([\s\S]*?)<\/script>/g)].map(([, type, id, text]) => ({ type, id, text }));
const document = new Element("document");
document.body = new Element("body");
document.activeElement = document.body;
document.append(document.body);
document.createElement = (name) => new Element(name);
document.createElementNS = (_, name) => new Element(name);
document.getElementById = (id) => {
  const script = scripts.find((each) => each.id === id);
  return script ? { textContent: script.text } : document.querySelector(`#${id}`);
};
const location = { hash: `#${process.argv[3] ?? ""}` };
const context = vm.createContext({
  AbortController, Node, document, location, console, URLSearchParams, Blob, Response, DecompressionStream, structuredClone, setTimeout, clearTimeout, atob,
  history: { replaceState: (_, __, address) => { location.hash = address; } },
  window: { innerWidth: 1280, addEventListener() {} },
  matchMedia: () => ({ matches: false }),
  URL: { createObjectURL: (blob) => `blob:${blobs.push(blob) - 1}`, revokeObjectURL() {} },
  /** Draws nothing; the place keeps what it was to draw. */
  vegaEmbed: async (place, spec) => { place.spec = spec; place.replaceChildren(new Element("svg")); },
  // ---- for programs ----
  all: (selector) => document.querySelectorAll(selector),
  one: (selector) => { const found = document.querySelector(selector); if (!found) throw new Error(`nothing is ${selector}`); return found; },
  cells: (place) => place.querySelectorAll("tr").map((row) => row.children.map((each) => each.textContent)),
  later: () => new Promise((resolve) => setTimeout(resolve, 5)),
  /** Choose or write something in a field. */
  write: (field, text) => { field.value = text; field.dispatch("change"); field.dispatch("input"); },
  /** What the last click saved. */
  lastSaved: async () => blobs[Number(saved.at(-1).getAttribute("href").slice(5))].text(),
});

process.on("unhandledRejection", (error) => { console.error(error); process.exit(1); });
(async () => {
  const program = fs.readFileSync(0, "utf-8");
  for (const { type, text } of scripts) if (!type) vm.runInContext(text, context);
  while (!document.body.dataset.ready) await new Promise((resolve) => setTimeout(resolve, 1));
  const found = await vm.runInContext(`(async () => {\n${program}\n})()`, context);
  process.stdout.write(JSON.stringify(found ?? null));
})();
