"use strict";
// Derivations: tapes, stacks and trees from them. What tape.py and attachments.py compute, for a page to step through.

/**
 * The stack tape of attachments (Algorithm 1): row k has the depth of each position 0..k after token k.
 * A token keeps the slot of the stack that it is in; attaching to slot m makes a node for each slot above it.
 */
function tapeOf(attach) {
  const rows = [[0]], depth = [0], slot = [0];
  let height = 1;
  for (let k = 1; k < attach.length; k++) {
    depth.push(0);
    if (attach[k] === k) slot.push(height++);
    else {
      slot.push(height - 1);
      const to = slot[attach[k]];
      for (let j = 0; j <= k; j++) {
        depth[j] += Math.max(0, slot[j] - to + 1);
        slot[j] = Math.min(slot[j], to);
      }
      height = to + 1;
    }
    rows.push([...depth]);
  }
  return rows;
}

const leaf = (k) => ({ start: k, end: k, children: [] });
const joined = (left, right) => ({ start: left.start, end: right.end, children: [left, right] });

/** What stands on the stack after the last token of these attachments, lowest first; without ROOT and end-of-sentence. */
function forestOfAttachments(attach, eos) {
  let stack = [];
  for (let k = 1; k < attach.length; k++) {
    if (attach[k] === k) { stack.push(leaf(k)); continue; }
    let node = k === eos ? stack.pop() : leaf(k);
    if (attach[k] === 0) while (stack.length) node = joined(stack.pop(), node);  // to ROOT: everything
    else for (let found = false; !found;) {
      const left = stack.pop();
      found = left.end === attach[k];
      node = joined(left, node);
    }
    stack = [...stack, node].filter(Boolean);
  }
  return stack;
}

/** The same of actions: constituents have labels, and are open until they are closed. */
function forestOfActions(actions) {
  const bottom = { children: [] };
  const open = [bottom];
  for (const action of actions) {
    if (typeof action === "number") open.at(-1).children.push({ ...leaf(action) });
    else if (action.startsWith("(")) {
      const node = { label: action.slice(1), children: [], open: true };
      open.at(-1).children.push(node);
      open.push(node);
    } else open.pop().open = false;
  }
  const measure = (node) => {
    node.children.forEach(measure);
    if (node.children.length) {
      node.start = node.children[0].start;
      node.end = node.children.at(-1).end;
    }
  };
  bottom.children.forEach(measure);
  return bottom.children;
}

/** Arcs of a derivation, such as "0-3": heads and dependents by the positions of their words' first tokens, 0 the root. */
const arcsOf = (derivation) => derivation.map((each) => each.split("-").map(Number));

/**
 * Degree, depth and distance of each node (graph_features.py) after each of them, rows up to the node itself.
 * `nodes` are positions: 0, the root, and those of words.
 */
function graphFeatures(arcs, nodes) {
  const at = new Map(nodes.map((position, j) => [position, j]));
  const found = { degree: [], depth: [], distance: [] };
  nodes.forEach((_, t) => {
    const own = arcs.map((arc) => arc.map((end) => at.get(end))).filter((arc) => arc.every((j) => j <= t));
    const paths = (start, down, up) => {
      const cost = Array(t + 1).fill(Infinity);
      cost[start] = 0;
      for (let changed = true; changed;) {
        changed = false;
        for (const [head, dependent] of own) for (const [from, to, step] of [[head, dependent, down], [dependent, head, up]]) {
          if (cost[from] + step >= cost[to]) continue;
          cost[to] = cost[from] + step;
          changed = true;
        }
      }
      return cost;
    };
    const reached = (cost) => (cost === Infinity ? 0 : cost);
    found.degree.push(nodes.slice(0, t + 1).map((_, j) => own.reduce((sum, [head, dependent]) => sum + 10 * (head === j) + (dependent === j), 0)));
    found.depth.push(paths(0, 1, 1).map((cost) => reached(cost + 1)));
    found.distance.push(paths(t, 10, 1).map(reached));
  });
  return found;
}

/** Arcs as text: head→dependent. */
const arcsText = (arcs, token) => arcs.map(([head, dependent]) => `${head ? token(head) : "root"}→${token(dependent)}`).join(" ");

/** For LaTeX's tikz-dependency. */
function latexOfArcs(arcs, nodes, token) {
  const escape = (text) => text.replace(/[\\{}$&#%_~^]/g, (c) => ({ "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" })[c] ?? `\\${c}`);
  const words = nodes.filter(Boolean), number = (position) => words.indexOf(position) + 1;
  const lines = arcs.map(([head, dependent]) => (head ? `\\depedge{${number(head)}}{${number(dependent)}}{}` : `\\deproot{${number(dependent)}}{}`));
  return `\\begin{dependency}\n\\begin{deptext}\n${words.map((k) => escape(token(k))).join(" \\& ")} \\\\\n\\end{deptext}\n${lines.join("\n")}\n\\end{dependency}`;
}

/** The forest of a derivation of either kind; positions beyond the sentence (end-of-sentence) are no leaves. */
function forestOf(derivation, kind, eos) {
  return kind === "actions" ? forestOfActions(derivation) : forestOfAttachments(derivation, eos);
}

/** All constituents of a forest, as "start-end". */
function spansOf(forest) {
  const found = new Set();
  const visit = (node) => {
    if (node.children.length && node.start !== undefined && !node.open) found.add(`${node.start}-${node.end}`);
    node.children.forEach(visit);
  };
  forest.forEach(visit);
  return found;
}

/** A forest in brackets, what stands on the stack separated by ‖. */
function bracketed(forest, token) {
  const text = (node) => {
    if (!node.children.length && node.label === undefined) return token(node.start);
    const inside = node.children.map(text).join(" ");
    const label = node.label === undefined ? "" : `${node.label} `;
    return node.open ? `(${label}${inside}` : node.label === undefined ? `[${inside}]` : `(${label}${inside})`;
  };
  return forest.map(text).join(" ‖ ");
}

/** For LaTeX's forest package; what is not in the gold tree is dashed. */
function latexOf(forest, token, isGold) {
  const escape = (text) => text.replace(/[\\{}$&#%_~^[\],=]/g, (c) => ({ "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" })[c] ?? (/[[\],=]/.test(c) ? `{${c}}` : `\\${c}`));
  const text = (node) => {
    if (!node.children.length && node.label === undefined) return `[{${escape(token(node.start))}}]`;
    const style = isGold(node) ? "" : ", edge=dashed, for children={edge={dashed, orange}}";
    return `[{${escape(node.label ?? "")}}${style} ${node.children.map(text).join(" ")}]`;
  };
  return forest.map((node) => `\\begin{forest}\n${text(node)}\n\\end{forest}`).join("\n");
}

/**
 * Which hypothesis after token k each hypothesis of each step belongs to: its ancestor there, or, before k, its most
 * probable descendant; null where none is listed.
 */
function ancestry(steps, k) {
  const found = steps.map((step) => step.hypotheses.map(() => null));
  found[k] = steps[k].hypotheses.map((_, rank) => rank);
  for (let t = k + 1; t < steps.length; t++) steps[t].hypotheses.forEach((each, rank) => { found[t][rank] = found[t - 1][each.parent] ?? null; });
  for (let t = k; t > 0; t--) steps[t].hypotheses.forEach((each, rank) => {
    const mine = found[t][rank];
    if (mine !== null && each.parent < found[t - 1].length) found[t - 1][each.parent] = Math.min(found[t - 1][each.parent] ?? Infinity, mine);
  });
  return found;
}
