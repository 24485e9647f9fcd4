"use strict";
// Pictures of a sentence: bars of surprisal, forests, tapes, attention. Each returns an SVG, or a canvas for weights.

const ORANGE = "#d55e00", BLUE = "#0072b2", GREY = "#e3e3e3", SOFT = "#767676";
const measuring = document.createElement("canvas").getContext("2d");
measuring.font = '11px system-ui, "Segoe UI", Helvetica, Arial, sans-serif';
const textWidth = (text) => measuring.measureText(text).width;
const cut = (text, room) => {
  if (textWidth(text) <= room) return text;
  let end = text.length;
  while (end > 1 && textWidth(`${text.slice(0, end)}…`) > room) end--;
  return `${text.slice(0, end)}…`;
};
const svgText = (x, y, text, more = {}) => make("text", { x, y, "text-anchor": "middle", ...more }, text);

/**
 * Bars of surprisal, a group for each column: `values[m][c]` in bits (or null). The first series is filled, the others
 * are outlined (of many: marked), with dashes of their own. Columns after `now` are grey; one is chosen by a click; that of `mark` is bold.
 * Above each column stands what `numbers` has for it: the bits of the first series, unless said.
 */
function barsDrawing({ labels, values, colours, now, choose, name, room, mark = null, numbers = values[0].map((x) => x?.toFixed(1)) }) {
  const most = Math.max(1, ...values.flat().filter((x) => x !== null));
  const widths = labels.map((label) => Math.max(26, Math.min(96, Math.max(...label.split("\n").map(textWidth)) + 8)));
  const spare = Math.max(0, Math.min(40, (room - 44 - widths.reduce((a, b) => a + b, 0)) / widths.length));
  const left = 36, height = 110, top = 16, lines = Math.max(...labels.map((label) => label.split("\n").length));
  const parts = [];
  for (const tick of [0, most / 2, most]) {
    const y = top + height - (height * tick) / most;
    parts.push(make("line", { x1: left - 4, x2: left, y1: y, y2: y, stroke: SOFT }), svgText(left - 7, y + 4, tick.toFixed(tick < 10 && tick ? 1 : 0), { "text-anchor": "end", class: "soft" }));
  }
  let x = left + 4;
  labels.forEach((label, c) => {
    const width = widths[c] + spare;
    const read = now === null || c <= now;
    const group = make("g", { class: "column", "data-column": c, style: choose ? "cursor: pointer" : null, click: choose && (() => choose(c)) });
    group.append(make("rect", { x, y: 0, width, height: top + height + 18 * lines, fill: "transparent" }));
    values.forEach((series, m) => {
      const bits = series[c];
      if (bits === null || bits === undefined) return;
      const tall = (height * Math.max(bits, 0)) / most, y = top + height - tall;
      const inset = 3 + 3 * m;
      if (m && values.length > 3) {  // many outlines would hide each other
        group.append(make("line", { class: "outlined", x1: x + 2, x2: x + width - 2, y1: y, y2: y, stroke: read ? colours[m] : "#b5b5b5", "stroke-width": 2.4, "stroke-dasharray": m > 1 ? `${2 * m} 2` : null }));
        return;
      }
      const fill = m ? "none" : !read ? GREY : c === now || now === null ? colours[0] : `${colours[0]}80`;
      group.append(make("rect", { class: m ? "outlined" : "filled", x: x + inset, y, width: Math.max(4, width - 2 * inset), height: tall, fill, stroke: m ? (read ? colours[m] : "#c4c4c4") : "none", "stroke-width": 1.6, "stroke-dasharray": m > 1 ? `${2 * m} 2` : null }));
    });
    if (numbers[c] !== undefined) group.append(svgText(x + width / 2, top + height - (height * Math.max(0, ...values.map((s) => s[c] ?? 0))) / most - 4, numbers[c], { class: read ? "" : "soft" }));
    label.split("\n").forEach((line, l) => group.append(svgText(x + width / 2, top + height + 14 + 15 * l, cut(line, width - 2), { class: [read ? "" : "soft", c === now || c === mark ? "strong" : ""].join(" ") })));
    parts.push(group);
    x += width;
  });
  parts.push(make("line", { x1: left, x2: x, y1: top + height, y2: top + height, stroke: SOFT }));
  return make("svg", { width: x + 4, height: top + height + 8 + 15 * lines, role: "img", "aria-label": name }, parts);
}

/**
 * A forest that stands on its words, `places` of them; constituents that are not gold are orange and dashed. It is at
 * least as tall as the forest `like`, so that what is below does not move while it grows.
 */
function forestDrawing({ forest, token, places, isGold, name, like = [] }) {
  const centres = new Map();
  let x = 8;
  for (const place of places) {
    const width = Math.max(24, textWidth(token(place)) + 12);
    centres.set(place, x + width / 2);
    x += width;
  }
  const parts = [];
  const tall = (node) => (node.tall = node.children.length ? 1 + Math.max(...node.children.map(tall)) : node.label === undefined ? 0 : 1);
  const most = Math.max(1, ...forest.map(tall), ...like.map(tall));
  const step = Math.max(14, Math.min(30, 380 / most)), base = 22 + step * most;
  let waiting = x;  // open constituents without words stand at the right
  const place = (node) => {
    if (!node.children.length) {
      node.x = node.label === undefined ? centres.get(node.start) : (waiting += 26) - 13;
      node.y = base - (node.label === undefined ? 0 : step);
      return;
    }
    node.children.forEach(place);
    const ends = [node.children[0], node.children.at(-1)];
    node.x = (ends[0].x + ends[1].x) / 2;
    node.y = base - step * node.tall;
  };
  const draw = (node) => {
    if (!node.children.length && node.label === undefined) return;
    const good = node.open || isGold(node);
    const stroke = node.open ? SOFT : good ? "#444" : ORANGE;
    const dash = node.open ? "1 3" : good ? null : "5 3";
    const inside = make("g", { class: good ? "constituent" : "constituent notgold" });
    for (const child of node.children) inside.append(make("line", { x1: node.x, y1: node.y, x2: child.x, y2: child.y - (child.children.length || child.label !== undefined ? 4 : 11), stroke, "stroke-width": good ? 1.2 : 2, "stroke-dasharray": dash }));
    if (node.label !== undefined) {
      const wide = textWidth(node.label) + 4;
      inside.append(make("rect", { x: node.x - wide / 2, y: node.y - 9, width: wide, height: 13, fill: "#fff" }), svgText(node.x, node.y + 2, node.label, { fill: stroke, style: `fill: ${stroke}`, class: node.open ? "" : "strong" }));
    } else inside.append(make("circle", { cx: node.x, cy: node.y, r: 2.6, fill: stroke }));
    parts.push(inside);
    node.children.forEach(draw);
  };
  forest.forEach(place);
  forest.forEach(draw);
  for (const [at, centre] of centres) parts.push(svgText(centre, base + 4, token(at), { class: "word" }));
  return make("svg", { width: waiting + 8, height: base + 16, role: "img", "aria-label": name }, parts);
}

/** Arcs over their words; those of the word `now` are dark. The root's come from above. */
function arcsDrawing({ arcs, token, places, now, name }) {
  const centres = new Map();
  let x = 8;
  for (const place of places) {
    const width = Math.max(24, textWidth(token(place)) + 12);
    centres.set(place, x + width / 2);
    x += width;
  }
  const order = [0, ...places];
  const level = ([head, dependent]) => (head ? Math.abs(order.indexOf(head) - order.indexOf(dependent)) : 0);
  const step = 16, base = 34 + step * Math.min(14, Math.max(1, ...arcs.map(level)));
  const parts = arcs.map((arc) => {
    const [head, dependent] = arc, to = centres.get(dependent), stroke = Math.max(head, dependent) === now ? "#000" : "#8a8a8a";
    const from = head ? centres.get(head) + (dependent > head ? 5 : -5) : to;
    const top = head ? base - 14 - step * Math.min(14, level(arc)) : 8, end = base - 13;
    const path = head ? `M ${from} ${end} C ${from} ${top}, ${to} ${top}, ${to} ${end}` : `M ${to} ${top} L ${to} ${end}`;
    return make("g", { class: "arc" }, make("path", { d: path, fill: "none", stroke, "stroke-width": 1.2 }), make("path", { d: `M ${to - 3} ${end - 5} L ${to} ${end} L ${to + 3} ${end - 5} Z`, fill: stroke }));
  });
  for (const [at, centre] of centres) parts.push(svgText(centre, base + 4, token(at), { class: at === now ? "word strong" : "word" }));
  return make("svg", { width: x + 8, height: base + 16, role: "img", "aria-label": name }, parts);
}

/** The tape as a heat map: row k has the depth of each position after token k; rows up to `now` are drawn. */
function tapeDrawing({ rows, tokens, now, name }) {
  const size = Math.max(9, Math.min(20, 560 / tokens.length)), left = 88, top = 6;
  const most = Math.max(1, ...rows.flat());
  const parts = [];
  rows.slice(0, now + 1).forEach((row, k) => {
    const y = top + k * size;
    parts.push(svgText(left - 5, y + size / 2 + 4, cut(tokens[k], 78), { "text-anchor": "end", class: k === now ? "strong" : "" }));
    row.forEach((depth, j) => {
      const strength = depth ? 0.25 + (0.75 * depth) / most : 0;
      parts.push(make("rect", { class: "cell", "data-depth": depth, x: left + j * size, y, width: size - 1, height: size - 1, fill: depth ? `rgba(0, 86, 140, ${strength.toFixed(3)})` : "#f0f3f5" }));
      if (depth && size >= 13) parts.push(svgText(left + j * size + size / 2, y + size / 2 + 4, depth, { style: `fill: ${strength > 0.6 ? "#fff" : "#1b1b1b"}; font-size: ${Math.min(10, size * (depth > 9 ? 0.56 : 0.7)).toFixed(1)}px` }));
    });
  });
  return make("svg", { width: left + tokens.length * size + 4, height: top + tokens.length * size + 6, role: "img", "aria-label": name }, parts);
}

/** Weights of one head as a picture: dark for 1; of differences orange for more, blue for less. */
function weightsCanvas({ n, now, weight, difference, name }) {
  const size = Math.max(3, Math.min(11, Math.floor(150 / n)));
  const canvas = make("canvas", { width: n * size, height: n * size, role: "img", "aria-label": name, style: "border: 1px solid #d9d9d9" });
  const draw = canvas.getContext("2d");
  for (let i = 0; i < n && i <= now; i++) for (let j = 0; j <= i; j++) {
    const w = weight(i, j);
    draw.fillStyle = difference ? (w >= 0 ? `rgba(213, 94, 0, ${Math.min(1, 2 * w)})` : `rgba(0, 114, 178, ${Math.min(1, -2 * w)})`) : `rgba(0, 0, 0, ${w})`;
    draw.fillRect(j * size, i * size, size, size);
  }
  if (now < n) {
    draw.strokeStyle = "#e69f00";
    draw.strokeRect(0.5, now * size + 0.5, (now + 1) * size - 1, size - 1);
  }
  return canvas;
}

/** Shares of the beam after each token, stacked; a colour for each hypothesis of the chosen step and its family. */
function beamDrawing({ steps, families, colours, now, chosen, choose, label, name, room }) {
  const left = 42, height = 120, top = 8;
  const width = Math.max(10, Math.min(34, (room - left - 8) / steps.length));
  const parts = [0, 0.5, 1].map((tick) => svgText(left - 5, top + height * (1 - tick) + 4, `${100 * tick}%`, { "text-anchor": "end", class: "soft" }));
  steps.forEach((step, t) => {
    const x = left + t * width;
    let y = top + height;
    const column = make("g", { style: "cursor: pointer", click: () => choose(t) }, make("rect", { x, y: top, width: width - 1, height, fill: "#f4f4f4" }));
    let chosenTall = 0, chosenY = 0;
    step.hypotheses.map((each, rank) => ({ each, rank, family: families[t][rank] }))
      .sort((a, b) => (a.family ?? 1e6) - (b.family ?? 1e6) || a.rank - b.rank)
      .forEach(({ each, family }) => {
        const tall = height * each.share;
        y -= tall;
        if (family === chosen) [chosenTall, chosenY] = [chosenTall + tall, y];
        if (tall < 0.3) return;
        column.append(make("rect", { class: "hypothesis", x, y, width: width - 1, height: Math.max(tall - 0.4, 0.3), fill: family === null ? "#c9c9c9" : colours(family) }, make("title", {}, `${label(t)}: ${(100 * each.share).toFixed(1)}%`)));
      });
    // One outline for the whole family: of small members each its own would hide their colour.
    if (chosenTall >= 1) column.append(make("rect", { class: "family", x, y: chosenY, width: width - 1, height: chosenTall, fill: "none", stroke: "#000", "stroke-width": 1.2, "pointer-events": "none" }));
    if (t === now) column.append(make("rect", { x: x - 1, y: top - 4, width: width + 1, height: height + 8, fill: "none", stroke: "#e69f00", "stroke-width": 2 }));
    const short = cut(label(t), 54);
    column.append(make("text", { transform: `translate(${x + width / 2 + 3}, ${top + height + 10}) rotate(-55)`, "text-anchor": "end", class: t === now ? "strong" : "soft" }, short));
    parts.push(column);
  });
  return make("svg", { width: left + steps.length * width + 6, height: top + height + 58, role: "img", "aria-label": name }, parts);
}
