"use strict";
// The page of evaluations: main scores, a section for each benchmark, and its items one by one.

kinds.results = async () => {
  const ROWS = 20;  // items on a page of the list
  const models = page.models;
  const drawn = [], redraw = {};

  // ---- main scores -------------------------------------------------------------------------------------------

  const overview = table(
    [{ name: "score", number: false }, ...models.map((name) => ({ name, number: true }))],
    page.overview.map((row) => [row.score, ...row.values.map((value, i) => make("span", { title: row.over[i] }, digits(value, row.digits)))]),
  );

  // Models that differ in nothing but their seed, as one.
  const groups = Object.entries(page.groups).map(([name, members]) => ({ name, of: members.map((each) => models.indexOf(each)) }));
  const hasSeeds = groups.some(({ of }) => of.length > 1);
  const plusMinus = ([mean, deviation], n) => (mean === null ? "–" : digits(mean, n) + (deviation === null ? "" : ` ± ${digits(deviation, n)}`));
  const ofSeeds = hasSeeds ? table(
    [{ name: "score", number: false }, ...groups.map(({ name, of }) => ({ name: of.length > 1 ? `${name} (${of.length} seeds)` : `${name} (one run)`, number: true }))],
    page.overview.map((row) => [row.score, ...groups.map(({ name }) => plusMinus(row.means[name] ?? [null, null], row.digits))]),
    { caption: "Runs that were trained alike but for their seed are one: mean ± standard deviation over seeds (n − 1); of perplexities geometric." }) : null;

  // ---- a benchmark: a dot with its interval for each group and model, sorted as one likes ----------------------

  function scores(benchmark) {
    const { task, above, grouped } = benchmark;
    const prefix = `${task}-`;
    // Groups of seeds have one dot; single runs are there if one wants them.
    let seeds = grouped && !state.get(`${prefix}runs`) ? grouped : benchmark, { levels, models } = seeds;
    const names = Object.keys(levels);
    let level = state.get(`${prefix}level`, names.at(-1)), order = state.get(`${prefix}order`, models.length > 1 ? "difference" : "score");
    if (!levels[level]) level = names.at(-1);
    const rows = () => levels[level].map((row) => ({ ...row, of: above[row.name] ?? "" }));
    const of = (name, model) => levels[level].find((row) => row.name === name && row.series === model)?.score ?? null;
    // The difference is of two models, not of two seeds of one, if there are two.
    const pair = () => {
      const alike = Object.values(page.groups).find((members) => members.includes(models[0])) ?? [];
      return [models[0], models.find((model) => model !== models[0] && !alike.includes(model)) ?? models[1]];
    };
    const keys = {
      difference: (name) => { const [first, second] = pair(); return -((of(name, second) ?? 0) - (of(name, first) ?? 0)); },
      spread: (name) => { const found = models.map((model) => of(name, model)).filter((x) => x !== null); return Math.min(...found) - Math.max(...found); },
      score: (name) => -(of(name, models[0]) ?? 0),
      name: () => 0,
    };
    const sorted = () => {
      const all = [...new Set(levels[level].map((row) => row.name))].sort();
      const group = (name) => (order === "name" && level === names.at(-1) ? above[name] ?? "" : "");
      return all.sort((a, b) => group(a).localeCompare(group(b)) || keys[order](a) - keys[order](b));
    };
    const cells = () => sorted().flatMap((name) => models.map((model) => {
      const row = levels[level].find((each) => each.name === name && each.series === model);
      return [name, above[name] ?? "", model, row && +(100 * row.score).toFixed(2), row && +(100 * row.low).toFixed(2), row && +(100 * row.high).toFixed(2), row?.n ?? null];
    }));
    const shown = figure("", `${task}-scores`, [{ name: "group", number: false }, "of", "model", "score (%)", "from", "to", "items"], cells);
    const draw = () => {
      state.set({ [`${prefix}level`]: level === names.at(-1) ? "" : level, [`${prefix}order`]: order });
      shown.element.querySelector("figcaption").textContent = `By ${level === "overall" ? "nothing: overall" : level}`;
      const under = shown.element.querySelector("details");
      under.open = false;
      under.lastChild !== under.firstChild && under.lastChild.remove();
      return chart(shown.place, seeds.chart, rows(), { label: `${benchmark.title} by ${level}: ${models.join(", ")}`, sort: sorted() });
    };
    drawn.push(draw);
    const sortings = make("span");
    const controls = () => {
      const [first, second] = pair();
      const orders = [["score", `score of ${first}`], ["name", "name, by group"]];
      if (second) orders.unshift(["difference", `difference ${second} ${MINUS} ${first}`], ["spread", "spread of all models"]);
      if (!second && !orders.some(([name]) => name === order)) order = "score";
      sortings.replaceChildren(selection("sorted by", orders, order, (value) => { order = value; draw(); }));
    };
    const change = (value) => {
      state.set({ [`${prefix}runs`]: value });
      seeds = value ? benchmark : grouped;
      ({ levels, models } = seeds);
      controls();
      draw();
      redraw[task]?.()();
    };
    controls();
    return [
      make("div", { class: "controls" },
        selection("by", names.map((name) => [name, name]), level, (value) => { level = value; draw(); }),
        sortings,
        grouped ? selection("dots", [["", "groups of seeds"], ["each", "single runs"]], state.get(`${prefix}runs`), change) : null),
      make("p", { class: "soft" }, `Dots with 95% intervals over items (Wilson; of a mean of several, MOVER)${grouped ? "; of groups of seeds, over seeds and items (Student's t)" : ""}.${benchmark.chance === null ? "" : " Dashed: chance."}`),
      shown.element,
    ];
  }

  function differences({ pairs }) {
    const isOfOneRun = (note) => note.includes("one run each");
    const ofOneRun = pairs.about_p.filter(isOfOneRun).map((note) => `${note.replace(/^o/, "O")}.`), aboutP = pairs.about_p.filter((note) => !isOfOneRun(note));
    const notes = [...new Set([...ofOneRun, ...pairs.notes])].map((note) => make("p", { class: "note" }, note));
    if (pairs.means.length) {
      const names = [...new Set(pairs.means.map((row) => row.model))];
      const groups = [...new Set(pairs.means.map((row) => row.group))];
      const cell = (group, model) => { const row = pairs.means.find((each) => each.group === group && each.model === model); return row ? plusMinus([row.mean, row.deviation], row.digits) : "–"; };
      notes.unshift(make("h3", {}, "Means over seeds"), table([{ name: "", number: false }, ...names.map((name) => ({ name, number: true }))], groups.map((group) => [group, ...names.map((name) => cell(group, name))]), { caption: "± standard deviation (n − 1); items that all models could score." }));
    }
    if (!pairs.rows.length) return notes;
    const name = (p) => (p === null ? "–" : probability(p));
    const interval = (row) => (row.low === null ? "–" : `${signed(row.low, row.digits)} to ${signed(row.high, row.digits)}`);
    const counts = pairs.rows.some((row) => row.only_a !== null);
    const single = new Set(pairs.rows.filter((row) => row.level === "overall").map((row) => row.group)).size === 1;
    // Of two models their names are said once, in the headings.
    const one = new Set(pairs.rows.map((row) => `${row.a}\0${row.b}`)).size === 1 ? pairs.rows[0] : null;
    const [a, b] = one ? [one.a, one.b] : ["A", "B"];
    const rows = pairs.rows.map((row) => [single && row.level === "overall" ? "overall" : row.group, ...(one ? [] : [row.a, row.b]), signed(row.difference, row.digits), interval(row), ...(counts ? [row.only_a, row.only_b] : []), name(row.p), name(row.p_holm)]);
    const families = [...new Map(pairs.rows.filter((row) => row.p !== null).map((row) => [row.of, row])).values()];
    const said = `Intervals: 95%, ${hasSeeds ? "over seeds and items (Student's t) where there are several seeds, else " : ""}paired bootstrap over items. p: ${[...new Set(pairs.rows.map((row) => row.test).filter(Boolean))].join("; ")}, two-sided. p (Holm): corrected by Holm's method for the ${families.map((row) => `${row.family} ${row.family === 1 ? "comparison" : "comparisons"} ${row.of}`).join(", and separately the ")}. Shaded: below 0.05 after it${aboutP.length ? ` (${aboutP.join("; ")})` : ""}.`;
    return [
      make("h3", {}, "Differences between models"),
      table([{ name: "", number: false }, ...(one ? [] : ["A", "B"]), { name: `${b} ${MINUS} ${a}`, number: true }, { name: "95% interval", number: true }, ...(counts ? [`only ${a} right`, `only ${b} right`].map((each) => ({ name: each, number: true })) : []), { name: "p", number: true }, { name: "p (Holm)", number: true }], rows,
        { caption: said, rowClass: (i) => (pairs.rows[i].p_holm !== null && pairs.rows[i].p_holm < 0.05 ? "chosen" : null) }),
      notes,
    ];
  }

  // ---- suites: surprisal by region and condition ----------------------------------------------------------------

  function suites(benchmark) {
    const names = Object.keys(benchmark.suites).sort((a, b) => (benchmark.above[a] ?? "").localeCompare(benchmark.above[b] ?? "") || a.localeCompare(b));
    // Of groups of seeds their means, unless single runs are wanted.
    const grouped = benchmark.grouped && !state.get(`${benchmark.task}-runs`) ? benchmark.grouped : null;
    const { levels, models } = grouped ?? benchmark;
    const level = Object.keys(levels).at(-1), above = Object.keys(levels).at(-2);
    const of = (name, model) => levels[level].find((row) => row.name === name && row.series === model)?.score ?? null;
    const place = make("div", { class: "item", "aria-live": "polite" });
    let buttons = {};
    const choose = async (name) => {
      state.set({ suite: name });
      for (const [each, button] of Object.entries(buttons)) button.closest("tr").classList.toggle("chosen", each === name);
      const about = benchmark.suites[name];
      const regions = await packed("regions"), { columns } = regions, rows = grouped ? regions.grouped : regions.rows;
      const found = (rows[name] ?? []).map((row) => Object.fromEntries(row.map((value, i) => [columns[i], value]))).map((row) => ({ ...row, label: about.labels[row.region] }));
      const shown = figure(`${name}: surprisal by region`, `${benchmark.task}-${name}`, [{ name: "model", number: false }, "condition", "region", "mean (bits)", "from", "to", "sentences"], () => found.map((row) => [row.series, row.condition, row.label, row.mean, row.low, row.high, row.n]));
      place.replaceChildren(
        shown.element,
        make("p", {}, about.formulas.length > 1 ? "Predictions (the first is the scored one):" : "Prediction:"),
        ...about.formulas.map((formula) => make("p", {}, make("code", {}, readable(formula, about.labels)))),
        terms(about, found, models),
        make("p", { class: "soft" }, `Means over items${grouped ? " (of several seeds, of their means)" : ""}, bits, with 95% intervals of the mean (Student's t). A prediction is about each item, not about the means.`),
        make("button", { click: () => browsers[benchmark.task].only(name) }, "List its items"));
      await chart(shown.place, grouped ? about.grouped : about.chart, found, { label: `${name}: mean surprisal by region and condition`, facet: true });
    };
    const rows = names.map((name) => {
      buttons[name] = make("button", { class: "link", click: () => choose(name) }, name);
      return [benchmark.above[name] ?? "", buttons[name], ...models.map((model) => make("span", { style: shade(of(name, model)) }, percent(of(name, model))))];
    });
    const apart = (name) => { const scores = models.map((model) => of(name, model)).filter((x) => x !== null); return Math.max(...scores) - Math.min(...scores); };
    const first = names.reduce((best, name) => (apart(name) > apart(best) ? name : best));  // where models differ most
    const chosen = state.get("suite", first);
    const show = () => choose(names.includes(chosen) ? chosen : first);
    return [show, make("h3", {}, "Suites by region"), make("p", { class: "soft" }, "Choose a suite to see its surprisals, region by region."),
      make("div", { class: "two" }, make("div", { class: "scroll suites", tabindex: 0, role: "region", "aria-label": "Suites" }, table([above, level, ...models.map((name) => ({ name, number: true }))], rows)), place)];
  }

  /** The same in a place, made anew when other runs are wanted. */
  function suitesPlace(benchmark) {
    const place = make("div");
    if (!Object.keys(benchmark.suites).length) return place;
    redraw[benchmark.task] = () => {
      const [show, ...content] = suites(benchmark);
      place.replaceChildren(...content);
      return show;
    };
    drawn.push(redraw[benchmark.task]());
    return place;
  }

  const shade = (score) => (score === null ? "" : `background: rgba(0, 114, 178, ${(0.35 * score).toFixed(2)}); padding: 1px 6px; border-radius: 3px`);

  const TERM = /\(\s*(\d+|\*)\s*;\s*%([^%]+)%\s*\)/g;

  /** The means that a suite's predictions are about: a row for each condition and region, a column for each model. */
  function terms({ formulas, labels }, rows, models) {
    const found = [...new Set(formulas.flatMap((formula) => [...formula.matchAll(TERM)].filter((term) => term[1] !== "*").map((term) => `${term[1]};${term[2].trim()}`)))].map((term) => term.split(";"));
    const mean = (region, condition, model) => rows.find((row) => String(row.region) === region && row.condition === condition && row.series === model)?.mean ?? null;
    return found.length ? table(["region", "condition", ...models.map((name) => ({ name, number: true }))], found.map(([region, condition]) => [labels[region] ?? region, condition, ...models.map((model) => digits(mean(region, condition, model)))]), { caption: "What it compares (mean, bits):" }) : null;
  }

  /** "(6;%gap%) > (6;%no-gap%)" with the regions' names. */
  const readable = (formula, labels) => formula.replace(TERM, (_, number, condition) => `${condition.trim()}[${number === "*" ? "all" : labels[number] ?? number}]`);

  // ---- items ---------------------------------------------------------------------------------------------------

  const browsers = {};

  function browser(benchmark) {
    const { task, models: ours } = benchmark;
    const prefix = `${task}-`;
    const place = make("div");
    const list = make("div", { "aria-live": "polite" });
    let items = null, found = [], at = 0;
    const isRight = benchmark.is_right;
    const set = (values) => state.set(Object.fromEntries(Object.entries(values).map(([name, value]) => [prefix + name, value])));
    const get = (name) => state.get(prefix + name);

    const shows = [["", "all"]];
    if (ours.length > 1) shows.push(["differ", "that models disagree on"]);
    if (isRight) {
      ours.forEach((name, i) => shows.push([`only-${i}`, ours.length > 1 ? `only ${name} right` : `${name} right`]));
      ours.forEach((name, i) => shows.push([`not-${i}`, ours.length > 1 ? `only ${name} wrong` : `${name} wrong`]));
      if (ours.length > 1) shows.push(["none", "none right"], ["every", "all right"]);
    }
    const tests = {
      differ: (x) => x.some((each) => each !== x[0]),
      none: (x) => x.every((each) => each === 0),
      every: (x) => x.every((each) => each === 1),
      only: (x, i) => x[i] === 1 && x.every((each, j) => j === i || each === 0),
      not: (x, i) => x[i] === 0 && x.every((each, j) => j === i || each === 1),
    };

    const search = () => {
      const [test, model] = get("show").split("-");
      const words = get("find").toLowerCase(), group = get("group");
      const groupAt = items.groups.indexOf(group);
      const texts = Object.values(items.texts);
      found = [];
      for (let i = 0; i < items.id.length; i++) {
        if (groupAt >= 0 && items.group[i] !== groupAt) continue;
        if (test && !tests[test](items.outcomes.map((each) => each[i]), Number(model))) continue;
        if (words && !texts.some((each) => each[i]?.toLowerCase().includes(words))) continue;
        found.push(i);
      }
      const by = Number(get("sort") || -1);
      if (by >= 0) {
        const values = (items.margins ?? items.outcomes)[by];
        found.sort((a, b) => (values[a] ?? Infinity) - (values[b] ?? Infinity));
      }
      at = Math.min(Number(get("page") || 0), Math.max(0, Math.ceil(found.length / ROWS) - 1));
      draw();
    };

    const outcome = (value) => (isRight ? make("span", { class: value === null ? "" : value ? "right" : "wrong" }, value === null ? "no score" : value ? "right" : "wrong") : digits(value, 1));

    function draw() {
      const rows = found.slice(ROWS * at, ROWS * at + ROWS);
      const chosen = get("item");
      const listed = Object.keys(items.texts).slice(0, items.listed);
      const text = (i) => listed.map((name) => make("div", { class: "text", dir: "auto" }, items.texts[name][i] ?? ""));
      const columns = ["item", ...(listed.length ? [listed.join(" / ")] : []), ...ours.map((name) => ({ name, number: !isRight })), ...(items.margins ? ours.map((name) => ({ name: ours.length > 1 ? `margin (${name})` : "margin", number: true })) : [])];
      const cells = rows.map((i) => [
        make("button", { class: "link", "aria-expanded": String(chosen === String(i)), click: () => { set({ item: chosen === String(i) ? "" : i }); draw(); } }, `${items.groups.length > 1 ? `${items.groups[items.group[i]]} ` : ""}${items.id[i]}`),
        ...(listed.length ? [make("div", {}, text(i))] : []),
        ...ours.map((_, m) => outcome(items.outcomes[m][i])),
        ...(items.margins ? ours.map((_, m) => signed(items.margins[m][i])) : []),
      ]);
      const shown = table(columns, cells, { rowClass: (n) => (chosen === String(rows[n]) ? "chosen" : null) });
      const open = rows.findIndex((i) => chosen === String(i));
      if (open >= 0) shown.querySelectorAll("tbody tr")[open].after(make("tr", {}, make("td", { colspan: columns.length }, detail(rows[open]))));
      const move = (to) => { at = to; set({ page: at || "", item: "" }); draw(); };
      const last = Math.ceil(found.length / ROWS) - 1;
      const focused = document.activeElement?.textContent;
      list.replaceChildren(
        make("div", { class: "controls" },
          make("span", { class: "found" }, `${found.length.toLocaleString("en")} of ${items.id.length.toLocaleString("en")} items`),
          make("button", { disabled: at <= 0, click: () => move(at - 1) }, "← previous"),
          make("button", { disabled: at >= last, click: () => move(at + 1) }, "next →"),
          found.length ? make("span", { class: "soft" }, `page ${at + 1} of ${last + 1}`) : null,
          items.margins ? make("span", { class: "soft" }, "Margin: the bits by which the prediction holds.") : null),
        shown);
      if (focused) [...list.querySelectorAll("button")].find((button) => button.textContent === focused && !button.disabled)?.focus();
    }

    const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
    const paths = page.folders.filter((each) => each.settings.task === task).map((each) => each.provenance.inputs?.model?.path).filter(Boolean);

    /** One item: each model's surprisals, token by token, and how to look closer. */
    function detail(i) {
      const parts = [];
      for (const [name, texts] of Object.entries(items.texts)) if (items.unfolded) parts.push(make("h3", {}, name), make("div", { class: "text", dir: "auto" }, texts[i] ?? "–"));
      for (const [condition, [contents, bits]] of Object.entries(items.regions?.[i] ?? {})) {
        parts.push(make("h3", {}, `${condition}: surprisal of each region (bits)`), bits.map((of, m) => (of.length && !of.includes(null) ? heat(ours[m], [contents, of], null) : null)));
      }
      for (const [m, tokens] of Object.entries(items.tokens ?? {})) {
        if (!tokens[i]) continue;
        parts.push(make("h3", {}, `${ours[m]}: surprisal of each token (bits)`), ...items.sides.map((side, s) => (tokens[i][s] || items.pair ? heat(side, tokens[i][s], tokens[i]) : null)));
      }
      if (items.note) parts.push(make("p", { class: "soft" }, items.note));
      const sentences = items.pair ? [["--pair", ...items.pair.map((name) => items.texts[name][i])]]
        : Object.values(items.regions?.[i] ?? {}).map(([contents]) => ["--text", contents.map((each) => each?.trim()).filter(Boolean).join(" ")]);
      if (sentences.length) {
        const options = [...sentences, ...paths.map((path) => ["--model", path])].map(([name, ...values]) => [name, ...values.map(quote)].join(" "));
        const command = `pdtools view ${options.join(" ")} -o ${items.pair ? "pair" : "item"}.html`;
        parts.push(make("h3", {}, "What the models did at each token"), make("p", {}, make("code", {}, command), " ", copyButton("copy the command", command)));
      }
      return make("div", { class: "item" }, parts);
    }

    const heat = (side, tokens, beside) => {
      if (!tokens) return make("p", {}, `${side}: no score`);
      const [words, bits] = tokens;  // tokens, or regions
      const most = Math.max(...bits, ...(beside ?? []).flatMap((each) => each?.[1] ?? []), 1);
      const sum = bits.reduce((a, b) => a + b, 0);
      return make("div", { class: "tokens" }, make("b", {}, `${side} ${digits(sum, 1)}:`), words.map((word, k) => make("span", { style: `background: rgba(213, 94, 0, ${(0.55 * bits[k] / most).toFixed(3)})` }, `${word} `, make("small", {}, digits(bits[k], 1)))));
    };

    const input = make("input", { type: "search", "aria-label": `search ${benchmark.title}`, placeholder: "search", input: () => { set({ find: input.value, page: "", item: "" }); search(); } });
    const groups = make("span");
    const controls = () => {
      input.value = get("find");
      groups.replaceChildren(...(items.groups.length > 1 ? [selection("of", [["", "all groups"], ...items.groups.map((name) => [name, name])], get("group"), (value) => { set({ group: value, page: "", item: "" }); search(); })] : []));
      return make("div", { class: "controls" },
        selection("show", shows, get("show"), (value) => { set({ show: value, page: "", item: "" }); search(); }), groups,
        selection("sorted by", [["", "their order"], ...ours.map((name, i) => [String(i), items.margins ? `margin of ${name}` : `score of ${name}`])], get("sort"), (value) => { set({ sort: value, page: "", item: "" }); search(); }),
        input);
    };
    const load = async () => {
      items ??= await packed(`items-${task}`);
      place.replaceChildren(controls(), list);
      search();
    };
    browsers[task] = { async only(group) { set({ group, page: "", item: "" }); section.open = true; await load(); place.scrollIntoView({ block: "start" }); } };
    const section = make("details", { open: ["show", "find", "group", "item", "page", "sort"].some((name) => get(name)) }, make("summary", {}, `Items, one by one (${benchmark.items.toLocaleString("en")})`), place);
    section.addEventListener("toggle", () => section.open && !items && load());
    return section;
  }

  // ---- what only one evaluation has: charts, each with its table, and perhaps one beside it -------------------

  function drawings(benchmark) {
    const { task, title, runs } = benchmark;
    const place = make("div");
    const show = () => {
      const draws = [];
      const shown = (state.get(`${task}-runs`) ? runs ?? benchmark.drawn : benchmark.drawn).map((each) => {
        const columns = each.columns.map(([key, name]) => ({ name, number: typeof each.rows[0][key] !== "string" }));
        const shown = figure(each.title, `${task}-${each.name}`, columns, () => each.rows.map((row) => each.columns.map(([key]) => row[key])),
          () => each.rows.map((row) => each.columns.map(([key]) => (typeof row[key] === "number" && key !== "n" ? digits(row[key], row.digits) : row[key]))));
        draws.push(() => chart(shown.place, each.chart, each.rows, { label: `${title}: ${each.title}, of ${[...new Set(each.rows.map((row) => row.series))].join(", ")}`, facet: Boolean(each.chart.facet) }));
        return [shown.element, make("p", { class: "soft" }, each.said), each.beside ? make("div", { class: "lines" }, table(each.beside.columns, each.beside.rows)) : null];
      });
      place.replaceChildren(make("div", {}, shown));
      return async () => { for (const draw of draws) await draw(); };
    };
    drawn.push(show());
    const change = (value) => { state.set({ [`${task}-runs`]: value }); show()(); };
    return [runs ? make("div", { class: "controls" }, selection("dots", [["", "groups of seeds"], ["each", "single runs"]], state.get(`${task}-runs`), change)) : null, place];
  }

  const oneRun = !hasSeeds && models.length > 1 && page.benchmarks.some((benchmark) => benchmark.pairs.rows.length) ? make("p", { class: "soft" }, "One run of each model: how scores vary over seeds is not known, and differences rest on one run each.") : null;
  const main = make("section", {}, make("h2", {}, "Main scores"), ofSeeds, ofSeeds ? opening("Each seed", () => overview) : overview, oneRun, make("div", { class: "controls" }, copyButton("Copy the methods sentence", page.methods)));
  const section = (benchmark) => make("section", { id: benchmark.task }, benchmark.drawn || benchmark.pairs.rows.length || benchmark.pairs.means.length || benchmark.levels || benchmark.items ? [
    make("h2", {}, benchmark.title), benchmark.drawn ? drawings(benchmark) : null,
    benchmark.levels ? scores(benchmark) : null, differences(benchmark), benchmark.suites ? suitesPlace(benchmark) : null, benchmark.items ? browser(benchmark) : null] : []);
  const curves = page.curves.length ? make("section", {}, make("h2", {}, "Learning curves"), make("div", { class: "grid" }, page.curves.map(({ id, title, x, chart: template, rows }) => {
    const { element, place } = figure(title, id, ["run", x, title], () => rows.map((row) => [row.series, row.x, row.y]));
    drawn.push(() => chart(place, template, rows, { label: `${title} by ${x}: ${[...new Set(rows.map((row) => row.series))].join(", ")}`, caption: true }));
    return element;
  }))) : null;
  frame(
    page.benchmarks.filter((benchmark) => benchmark.drawn).map(section),  // milliseconds first
    main,
    curves,
    page.benchmarks.filter((benchmark) => !benchmark.drawn).map(section),
    make("section", {}, make("h2", {}, "How they were made"), page.folders.map((each) => opening(`${each.model}: ${each.folder}`, () => make("pre", {}, JSON.stringify({ settings: each.settings, provenance: each.provenance }, null, 1))))),
  );
  for (const draw of drawn) await draw();
  document.body.dataset.ready = "true";
};
