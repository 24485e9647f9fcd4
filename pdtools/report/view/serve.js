"use strict";
// The page of `pdtools serve`: what is typed goes to the models, and the pages that they answer are drawn below it.

kinds.serve = () => {
  const { limits, models, ...served } = page, nonce = document.currentScript.nonce, id = String(Math.random());
  const running = {};  // what ends the question that is asked, of typed text (false) and of tables (true)
  let latest = null;

  // ---- what is typed -----------------------------------------------------------------------------------------

  const line = (name, label) => make("input", { type: "text", id: name, autocomplete: "off", spellcheck: "false", maxlength: limits.MOST_CHARS, "aria-label": label });
  const text = line("text", "sentence"), bad = line("bad", "the bad sentence");
  const file = make("input", { type: "file", id: "file", accept: limits.SUFFIXES.join(","), "aria-label": "table", change: () => ask() });
  const beam = make("input", { type: "number", id: "beam", min: 1, max: limits.MOST_BEAM, placeholder: served.beam });
  const words = make("input", { type: "checkbox", id: "words" });
  const context = make("textarea", { id: "context", rows: 3, maxlength: limits.MOST_CONTEXT, placeholder: "sentences that are read before, one a line", "aria-label": "context" });
  const said = make("p", { id: "said", role: "status" });
  const command = make("div", { id: "command", class: "controls" });
  const past = make("ol", { id: "past" });
  const visit = make("details", { hidden: true }, make("summary", {}, "This visit"), past);
  const place = make("div", { id: "shown" });
  const KINDS = { sentence: ["Sentence", "a sentence"], pair: ["Pair", "the good sentence"], next: ["What next?", "the beginning of a sentence"], table: ["Table", ""] };
  const kind = () => document.querySelector("input[name=kind]:checked").value;

  function arrange() {
    text.hidden = kind() === "table";
    bad.hidden = kind() !== "pair";
    file.hidden = kind() !== "table";
    context.closest("details").hidden = kind() === "next";
    words.parentNode.hidden = kind() === "next";
    text.placeholder = text.ariaLabel = KINDS[kind()][1];
    bad.placeholder = "the bad sentence";
  }

  /** What the fields hold, in the address, without what is chosen in the answer; and back. */
  const fields = () => ({ do: kind() === "sentence" ? "" : kind(), text: kind() === "table" ? "" : text.value.trim(), bad: kind() === "pair" ? bad.value.trim() : "", beam: beam.value, words: words.checked ? "1" : "", context: kind() === "next" ? "" : context.value.trim() });
  const isShown = () => Object.entries(fields()).every(([name, value]) => state.get(name) === value);
  function fill() {
    const radio = document.querySelector(`input[name=kind][value="${CSS.escape(state.get("do", "sentence"))}"]`);
    if (radio) radio.checked = true;
    for (const field of [text, bad, beam, context]) field.value = state.get(field.id);
    words.checked = Boolean(state.get("words"));
    context.closest("details").open = Boolean(context.value);
    arrange();
  }

  // ---- questions and answers ---------------------------------------------------------------------------------

  const say = (...message) => said.replaceChildren(...message);

  async function ask() {
    const table = kind() === "table", chosen = file.files[0];
    if (table && !chosen) return say("Choose a table (.csv, .tsv or .xlsx), or drop it anywhere on this page.");
    if (!isShown()) state.set({ ...fields(), token: "", hypothesis: "", sentence: "", model: "", page: "", find: "" });
    const question = JSON.stringify({ page: id, kind: kind(), texts: table ? [] : [text, bad].slice(0, kind() === "pair" ? 2 : 1).map((field) => field.value.trim()), beam: beam.value ? Number(beam.value) : null, words: words.checked, context: fields().context, name: table ? chosen.name : "" });
    running[table]?.abort();
    const mine = latest = running[table] = new AbortController();
    const address = location.hash, sort = `${KINDS[kind()][0].toLowerCase()}${beam.value ? `, beam ${beam.value}` : ""}`;
    const stop = table ? make("button", { type: "button", click: () => { mine.abort(); say("Stopped."); } }, "Stop") : "";
    const tell = (...message) => latest === mine && say(...message);
    tell("…");
    let isTold = false;
    try {
      const response = await fetch(table ? "/table" : "/ask", { method: "POST", signal: mine.signal, headers: { "Content-Type": table ? "application/octet-stream" : "application/json" }, body: table ? new Blob([question, "\n", chosen]) : question });
      if (!response.ok) return tell(await response.text());
      await events(response.body.getReader(), (event, bytes) => {
        isTold ||= Boolean(event.error || event.answer || event.replaced);
        if (event.error) tell(event.error);
        else if (event.waits) tell(event.table ? "A table is read: this waits for one batch of it, at most. " : `Waits for its turn (${event.waits}). `, stop);
        else if (event.of !== undefined) tell(make("progress", { max: event.of, value: event.done }), ` ${event.done.toLocaleString("en")} of ${event.of.toLocaleString("en")} sentences `, stop);
        else if (event.answer) {
          const answer = { ...event.answer, address, csv: bytes && new Blob([bytes], { type: "text/csv" }) };
          remember(answer, table ? chosen.name : JSON.parse(question).texts.join(" / "), sort);
          if (latest === mine) { say(""); return show(answer); }
          say(`${chosen?.name ?? "The answer"} is done: it is among “This visit”.`);
        }
      });
      if (!isTold) throw new Error("the answer broke off");
    } catch (error) {
      if (!mine.signal.aborted) tell(`No answer: is pdtools serve still running? (${error.message})`);
    }
  }

  /** Hand on each line of JSON, with the bytes after it of which it tells the number. */
  async function events(reader, take) {
    let parts = [], size = 0;  // what has come, and is not read yet
    const more = async () => {
      const { value } = await reader.read();
      if (value) { parts.push(value); size += value.length; }
      return value;
    };
    /** The first bytes of it, taken out. */
    const first = async (length) => {
      while (size < length) if (!await more()) throw new Error("the answer broke off");
      const all = new Uint8Array(await new Blob(parts).arrayBuffer());
      parts = [all.subarray(length)];
      size -= length;
      return all.subarray(0, length);
    };
    for (;;) {
      for (let part = parts[0]; !part?.includes(10);) if (!(part = await more())) return;
      const before = parts.slice(0, -1).reduce((sum, part) => sum + part.length, 0);
      const line = await first(before + parts.at(-1).indexOf(10) + 1), event = JSON.parse(new TextDecoder().decode(line));
      await take(event, event.bytes === undefined ? null : await first(event.bytes));
    }
  }

  function remember(answer, name, sort) {
    const again = make("button", { class: "link", type: "button", click: () => { latest = null; window.history.replaceState(null, "", answer.address || "#"); fill(); say(""); show(answer); } }, name || "(the beginning)");
    past.prepend(make("li", {}, again, " ", make("span", { class: "soft" }, sort)));
    visit.hidden = false;
  }

  async function show(answer) {
    left.abort();
    left = new AbortController();
    for (const name of Object.keys(unpacking)) delete unpacking[name];
    Object.assign(unpacking, answer.packed);
    page = answer.document;
    document.title = page.title;
    delete document.body.dataset.ready;
    place.replaceChildren();
    command.replaceChildren(make("pre", {}, page.command), copyButton("Copy", page.command), answer.csv ? make("button", { id: "save", type: "button", click: () => download(answer.document.save, answer.csv, "text/csv") }, "Download CSV") : "");
    if (page.charts) await charts();
    await kinds[page.kind]();
    // From the box to the answer, whose tokens the arrow keys step through.
    if ([text, bad].includes(document.activeElement)) place.querySelector("input[type=range]")?.focus({ preventScroll: true });
  }

  let loading = null;
  const charts = () => loading ??= new Promise((resolve) => document.head.append(make("script", { src: "/charts.js", nonce, load: resolve, error: () => { loading = null; say("The charts could not be loaded."); resolve(); } })));

  kinds.none = () => { frame(); document.body.dataset.ready = "true"; };
  kinds.next = () => {
    const most = Math.max(...Object.values(page.next).map((rows) => rows[0]?.[2] ?? 0));
    const bar = (share) => make("span", { class: "share", style: `width: ${(120 * share / most).toFixed(1)}px` });
    frame(make("div", { class: "grid" }, Object.entries(page.next).map(([name, rows]) => make("section", {}, make("h2", {}, name),
      table([{ name: "rank", number: true }, { name: "token", number: false }, "", { name: "p", number: true }, { name: "bits", number: true }], rows.map(([rank, token, p, bits]) => [rank, make("bdi", {}, token), bar(p), probability(p), digits(bits)]))))));
    document.body.dataset.ready = "true";
  };

  // ---- page --------------------------------------------------------------------------------------------------

  document.body.prepend(make("main", { class: "serve" },
    make("h1", {}, models.join(", ")),
    make("form", { submit: (event) => { event.preventDefault(); ask(); } },
      make("div", { class: "controls", role: "radiogroup", "aria-label": "what is asked" }, Object.entries(KINDS).map(([name, [title]]) => make("label", {}, make("input", { type: "radio", name: "kind", value: name, checked: name === "sentence", change: arrange }), title))),
      make("div", { class: "ask" }, text, bad, file, make("button", {}, "Ask")),
      make("div", { class: "controls" }, make("label", {}, "beam", beam), make("label", {}, words, "words"), make("details", {}, make("summary", {}, "context"), context), visit)),
    said, command, place,
    make("p", { class: "soft noprint" }, "Keys: Enter asks, / goes to the box. The address keeps the question, for others with a pdtools serve of their own; it has no key.")));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("textarea, input:not([type=range], [type=radio], [type=checkbox])")) return;
    event.preventDefault();
    text.focus();
    text.select();
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    if (!event.dataTransfer.files.length) return;
    document.querySelector("input[value=table]").checked = true;
    file.files = event.dataTransfer.files;
    arrange();
    ask();
  });
  window.addEventListener("hashchange", () => {
    if (isShown()) return;
    fill();
    if (text.value) ask();
  });
  window.history.replaceState(null, "", location.pathname + location.hash);  // without ?again
  fill();
  text.focus();
  if (text.value) ask();
};
