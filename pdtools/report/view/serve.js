"use strict";
// The page of `pdtools serve`: what is typed goes to the models, and the pages that they answer are drawn below.

kinds.serve = () => {
  const served = page, nonce = document.currentScript.nonce, id = String(Math.random());
  const KINDS = { sentence: "Sentence", pair: "Pair", next: "What next?", table: "Table" };
  const running = {};  // what ends the question that is asked, of typed text and of tables
  const answered = new Map();  // answers by their questions, oldest first: the history

  // ---- what is typed -----------------------------------------------------------------------------------------

  const value = (field) => field.value.trim();
  const text = make("input", { type: "text", id: "text", autocomplete: "off", maxlength: served.limits.MOST_CHARS, "aria-label": "sentence" });
  const bad = make("input", { type: "text", id: "bad", autocomplete: "off", maxlength: served.limits.MOST_CHARS, "aria-label": "bad sentence", placeholder: "the bad sentence" });
  const file = make("input", { type: "file", id: "file", accept: served.limits.SUFFIXES.join(","), "aria-label": "table", change: () => ask() });
  const beam = make("input", { type: "number", id: "beam", min: 1, max: served.limits.MOST_BEAM, placeholder: served.beam });
  const words = make("input", { type: "checkbox", id: "words" });
  const context = make("textarea", { id: "context", rows: 2, placeholder: "sentences read before, one a line" });
  const said = make("p", { id: "said", role: "status" });
  const more = make("div", { id: "more" }), past = make("ol", { id: "past" });
  const place = make("div", { id: "shown" });
  const chosen = () => document.querySelector("input[name=kind]:checked").value;
  const tabs = Object.entries(KINDS).map(([kind, name]) => make("label", {}, make("input", { type: "radio", name: "kind", value: kind, checked: kind === "sentence", change: arrange }), name));
  const form = make("form", { submit: (event) => { event.preventDefault(); ask(); } },
    make("div", { class: "controls", role: "radiogroup", "aria-label": "what is asked" }, tabs),
    make("div", { class: "controls ask" }, text, bad, file, make("button", {}, "Ask")),
    make("div", { class: "controls" }, make("label", {}, "beam", beam), make("label", {}, words, "words"), opening("Context", () => context)));

  function arrange() {
    const kind = chosen();
    text.hidden = kind === "table";
    bad.hidden = kind !== "pair";
    file.hidden = kind !== "table";
    text.placeholder = { pair: "the good sentence", next: "the beginning of a sentence" }[kind] ?? "a sentence";
  }

  // ---- questions and answers ---------------------------------------------------------------------------------

  async function ask() {
    const kind = chosen(), table = kind === "table";
    if (table && !file.files.length) return say("Choose a table, or drop it here.");
    const question = { kind, texts: table ? [] : kind === "pair" ? [value(text), value(bad)] : [value(text)], beam: beam.value ? Number(beam.value) : null, words: words.checked, context: context.value };
    state.set({ do: kind === "sentence" ? "" : kind, text: table ? "" : value(text), bad: kind === "pair" ? value(bad) : "", beam: beam.value, words: words.checked ? 1 : "", context: context.value, token: "", hypothesis: "", sentence: "" });
    running[table]?.abort();
    const mine = running[table] = new AbortController();
    say("asked …");
    try {
      if (table) question.suffix = file.files[0].name.match(/\.\w+$/)?.[0].toLowerCase();
      const head = JSON.stringify({ page: id, ...question });
      const response = await fetch(table ? "/table" : "/ask", { method: "POST", signal: mine.signal, headers: { "Content-Type": table ? "application/octet-stream" : "application/json" }, body: table ? new Blob([head, "\n", file.files[0]]) : head });
      if (!response.ok) return say(await response.text());
      await events(response.body.getReader(), (event, bytes) => {
        if (event.error) say(event.error);
        else if (event.waits) say(event.table ? "waits for one batch of a table …" : `waits for ${event.waits} …`);
        else if (event.of) say(`${event.done.toLocaleString("en")} of ${event.of.toLocaleString("en")} sentences`);
        else if (event.answer) {
          say("");
          return show(event.answer, bytes && new Blob([bytes], { type: "text/csv" }));
        }
      });
    } catch (error) {
      if (!mine.signal.aborted) say(`No answer: is pdtools serve still running? (${error.message})`);
    }
  }

  const say = (message) => { said.textContent = message; };

  /** Hand on each line of JSON, with the bytes that follow it, if it names their number. */
  async function events(reader, take) {
    let held = new Uint8Array();
    const read = async () => {
      const { value, done } = await reader.read();
      if (value) { const both = new Uint8Array(held.length + value.length); both.set(held); both.set(value, held.length); held = both; }
      return !done;
    };
    for (;;) {
      let end;
      while ((end = held.indexOf(10)) < 0) if (!await read()) return;
      const event = JSON.parse(new TextDecoder().decode(held.subarray(0, end)));
      held = held.subarray(end + 1);
      while (held.length < (event.bytes ?? 0)) if (!await read()) throw new Error("the answer broke off");
      const bytes = held.slice(0, event.bytes ?? 0);
      held = held.subarray(bytes.length);
      await take(event, event.bytes === undefined ? null : bytes);
    }
  }

  async function show(answer, csv) {
    left.abort();
    left = new AbortController();
    for (const name of Object.keys(unpacking)) delete unpacking[name];
    Object.assign(unpacking, answer.packed);
    page = answer.document;
    document.title = page.title;
    delete document.body.dataset.ready;
    place.replaceChildren();
    more.replaceChildren(make("code", { id: "command" }, page.command), copyButton("Copy", page.command));
    if (csv) more.append(make("button", { id: "save", click: () => download("surprisals.csv", csv, "text/csv") }, "CSV"));
    if (page.kind === "stimuli") await charts();
    await kinds[page.kind]();
  }

  let loading = null;
  const charts = () => loading ??= new Promise((resolve, reject) => document.head.append(make("script", { src: "/charts.js", nonce, load: resolve, error: reject })));

  kinds.none = () => { frame(); document.body.dataset.ready = "true"; };
  kinds.next = () => {
    frame(Object.entries(page.next).map(([name, rows]) => make("section", {}, make("h2", {}, name), table(["rank", { name: "token", number: false }, "probability", "bits"], rows))));
    document.body.dataset.ready = "true";
  };

  document.body.prepend(make("main", {}, make("h1", {}, served.title), form, said, more, place, past));
  document.querySelector(`input[value=${state.get("do", "sentence")}]`).checked = true;
  text.value = state.get("text"); bad.value = state.get("bad"); beam.value = state.get("beam"); words.checked = Boolean(state.get("words")); context.value = state.get("context");
  arrange();
  text.focus();
  if (text.value) ask();
};
