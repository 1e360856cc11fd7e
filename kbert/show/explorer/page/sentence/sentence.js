// The sentence line under the tokens, and what else a page with a sentence has.

function buildSentence() {
  document.documentElement.classList.toggle("unsized", live.isSized === false);
  pane().append(h("canvas", { id: "heat", "aria-hidden": "true" }));
  document.querySelector(".toolbar").prepend(h("div.strip-legend", { id: "legend" }));
  document.querySelector(".zoom").prepend(button("Sizes", () => showSide(!state.side), {
    id: "sizes", class: "kbert-only", "aria-pressed": "false", title: "Show sizes and costs",
  }));
  $("outputs").tabIndex = 0;  // it scrolls
  $("source-line").textContent = describeSource();
  placeStage();
  phone.addEventListener("change", placeStage);
  readShades();
  watchSentence();
  watchTokens();
}

// Sizes and costs are a view of their own, that a button or the tour shows beside the sentence.
function showSide(shown) {
  state.side = shown;
  drawSide();
}

function drawSide() {
  const shown = Boolean(state.side) || state.chapter === CODA || comparing() || !sentenceShown();
  document.documentElement.classList.toggle("configured", shown);
  $("sizes").setAttribute("aria-pressed", String(shown));
}

// The stage stands beside the figure; on a phone in the panel's sheet, and the sentence on top.
function placeStage() {
  if (phone.matches) {
    $("panel").before($("stage-area"));
    $("outputs").before($("sentence"));
  } else {
    $("outputs").after($("stage-area"));
    $("token-room").after($("sentence"));
  }
}

// Where the numbers come from, how far they are from those of float32, and what a recording lacks.
function describeSource() {
  const { place, precision, difference, leftOut = [], note = "" } = live;
  const source = {
    recorded: `Recorded by kbert in ${precision}, so nothing can be typed`, served: "Computed by kbert behind this page",
  }[place] || `Computed here with ${precision} weights`;
  const missing = `${leftOut.length ? ` Left out: ${leftOut.join(", ")}.` : ""} ${note}`;
  if (!difference || precision === "float32") return `${source}.${missing}`;
  const { hidden, attention, cosine, texts } = difference;
  const vector = cosine === null ? ""
    : `, cosine of the sentence vector at least ${Math.floor(cosine * 1e5) / 1e5}`;
  return `${source}: from float32, hidden states differ by up to ${hidden.toPrecision(2)}, ` +
    `attention by up to ${attention.toPrecision(2)}${vector}` +
    `${texts ? `, on ${texts} ${texts === 1 ? "text" : "texts"}` : ""}.${missing}`;
}

function drawLegend() {
  $("legend").hidden = !sentenceShown();
  const { H } = current();
  const numbers = `${Math.min(NUMBERS, H)} of its ${grouped(H)} numbers`;
  const [low, high, text] = state.frozen === null
    ? ["below 0", "above 0", `A column per token: ${numbers}`]
    : ["the same", "far from the frozen sentence", "Empty: not in that sentence"];
  $("legend").replaceChildren(h("span.dim", low),
    h("i", { class: state.frozen === null ? "ramp" : "ramp half", "aria-hidden": "true" }),
    h("span.dim", high), h("span", text));
}

function tellSentence(text) {
  $("run-status").textContent = text;
}

function drawSentence() {
  for (const id of ["text", "pair"]) {
    if ($(id).value !== (state[id] ?? "")) $(id).value = state[id] ?? "";
  }
  $("pair-line").hidden = state.pair === null;
  $("remove-pair").hidden = !running.model?.canType;
  $("add-pair").hidden = state.pair !== null || !running.model?.canType || !takesPair();
  const frozen = state.frozen !== null;
  const texts = [state.frozen, state.frozenPair].filter((text) => text !== null).join(" · ");
  $("freeze").textContent = frozen ? "Unfreeze" : "Freeze";
  $("frozen-line").hidden = !frozen;
  $("frozen-line").textContent = `Compared with “${texts}”, by the model as it was trained`;
  drawChanges();
  drawLegend();
}

// With recordings alone there is nothing to type: their sentences can be chosen.
function showWhatCanBeTyped() {
  const { canType } = running.model;
  const sentences = exampleSentences();
  document.documentElement.classList.toggle("typing", canType);
  for (const id of ["text", "pair"]) $(id).readOnly = !canType;
  $("freeze").hidden = !canType && sentences.length < 2;
  $("examples").hidden = sentences.length < 2;
  $("examples").replaceChildren(
    h("option", { value: "" }, canType ? "Examples" : "Recorded sentences"),
    ...sentences.map(({ text, pair }, place) =>
      h("option", { value: place }, pair === null ? text : `${text} · ${pair}`)));
  drawSentence();
}

function setPair(text) {
  state.pair = text;
  sentenceChanged();
  $(text === null ? "text" : "pair").focus();
}

function toggleFrozen() {
  const frozen = state.frozen === null;
  const { text, pair } = running.trace.request;  // what is shown: another may be refused
  state.frozen = frozen ? text : null;
  state.frozenPair = frozen ? pair ?? null : null;
  sentenceChanged();
  if (frozen) $("text").focus();
  announce(frozen ? "This sentence is frozen: type another" : "Nothing is frozen");
}

// The model begins, in its worker, before anything is drawn.
function sentenceChanged() {
  runSentence();
  drawSentence();
  keepSentenceInUrl();
}

let urlTimer = 0;

// Not at every keystroke: browsers refuse hundreds of new addresses in a row.
function keepSentenceInUrl() {
  clearTimeout(urlTimer);
  urlTimer = setTimeout(() => keepInUrl(false), 300);
}

function watchSentence() {
  for (const id of ["text", "pair"]) {
    fill($(id), {
      onkeydown: scrubKey,
      oninput: ({ target }) => {
        state[id] = target.value;
        sentenceChanged();
      },
    });
  }
  fill($("add-pair"), { onclick: () => setPair("") });
  fill($("remove-pair"), { onclick: () => setPair(null) });
  fill($("freeze"), { onclick: toggleFrozen });
  fill($("examples"), {
    onchange: ({ target }) => {
      if (target.value === "") return;
      Object.assign(state, exampleSentences()[target.value], { token: -1 });
      target.value = "";
      sentenceChanged();
    },
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintHeat);
}

function repaintHeat() {
  readShades();
  paintStrips(false);
  if (running.trace) drawOutputs();
  redrawStage();
}

function renderSentence() {
  drawSide();
  if (running.trace) showParts(false);
}

function followSentence() {
  $("switches").dataset.of = "";
  drawSentence();
  runSentence();
}

// The next block up or down, with the same layer chosen in it; at the ends it stays.
function scrubBlocks(step) {
  const next = Math.min(current().L, Math.max(1, state.open + step));
  if (next === state.open) return;
  const layer = state.chosen.replace(/^Encoder-\d+-/, `Encoder-${next}-`);
  if (layer === state.chosen) act("open", next);
  else go(layer);
}

const KEYS_OF_THEIR_OWN = "a, button, summary, [role=button], [tabindex='0'], .panel";

// Up and down from block to block, wherever the keys have nothing else to do.
function scrubKey(event) {
  const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (!step || event.altKey || event.ctrlKey || event.metaKey) return false;
  if (event.target.closest(KEYS_OF_THEIR_OWN)) return false;
  scrubBlocks(step);
  event.preventDefault();
  return true;
}
