// The sentence line under the tokens, and what a page with a sentence has more than one without.

// Builds it all, once; a page without DATA.live stays as it is.
function buildSentence() {
  document.documentElement.classList.add("watching");
  const middle = document.querySelector(".middle");
  pane().append(h("canvas", { id: "heat", "aria-hidden": "true" }));
  middle.querySelector(".toolbar").prepend(legendBox());
  middle.append(h("div", { class: "token-foot" }, h("div", { id: "token-room", class: "token-room", hidden: true },
    h("div", { id: "tokens", class: "tokens", role: "toolbar", "aria-label": "Tokens" }),
    h("div", { id: "token-tools", class: "token-tools", hidden: true })), sentenceBox()));
  document.querySelector(".panel").before(h("section", { id: "outputs", class: "outputs", hidden: true, "aria-label": "What comes out" }), h("section", { id: "stage-area", class: "stage-area", hidden: true, "aria-label": "Stage" },
    h("div", { id: "switches", class: "switches", hidden: true }), h("div", { id: "stage", class: "stage" })));
  document.querySelector(".zoom").prepend(button("Sizes", () => showSide(!state.side), {
    id: "sizes", class: "kbert-only", "aria-pressed": "false", title: "Show sizes and costs",
  }));
  placeStage();
  phone.addEventListener("change", placeStage);
  readHeatColours();
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

// The stage stands beside the figure; on a phone in the sheet of what is chosen, and the sentence on top.
function placeStage() {
  if (phone.matches) {
    $("panel").before($("stage-area"));
    $("outputs").before($("sentence"));
  } else {
    $("outputs").before($("stage-area"));
    $("token-room").after($("sentence"));
  }
}

// Whether a chosen box's stage takes the room of the panel's sheet.
const besideStage = () => Boolean(live) && sentenceShown() && !phone.matches;

function sentenceBox() {
  const line = (id, label, remove) => h("div", { class: "line", id: `${id}-line` }, h("label", { for: id }, label),
    h("input", { id, type: "text", autocomplete: "off", spellcheck: "false", placeholder: "Type a sentence" }), remove);
  return h("div", { class: "sentence", id: "sentence" },
    line("text", "Sentence", h("select", { id: "examples", "aria-label": "Examples" })),
    line("pair", "Second", button("×", () => setPair(null), { "aria-label": "Remove the second sentence" })),
    h("div", { class: "line tools" },
      button("+ second sentence", () => setPair(""), { id: "add-pair", class: "small" }),
      button("Freeze", toggleFrozen, { id: "freeze", class: "small", "aria-pressed": "false", title: "Keep this sentence, and see what differs in the next one" }),
      h("details", { id: "changes", class: "changes" }, h("summary", { class: "small" }, "Change the model", h("span", { id: "changes-count" })),
        h("div", { id: "switchboard", class: "switchboard" })),
      h("span", { id: "run-status", class: "dim run-status" })),
    h("div", { id: "changed", class: "changed", role: "group", "aria-label": "What is changed in the model" }),
    h("p", { id: "frozen-line", class: "frozen-line", hidden: true }),
    h("p", { id: "source-line", class: "frozen-line" }, describeSource()));
}

// Where the numbers come from, how far they are from those of float32, and what a recording lacks.
function describeSource() {
  const { place, precision, difference, leftOut = [] } = live;
  const source = {
    recorded: `Recorded by kbert in ${precision}`, served: "Computed by kbert behind this page",
  }[place] || `Computed here with ${precision} weights`;
  const missing = leftOut.length ? ` Left out: ${leftOut.join(", ")}.` : "";
  if (!difference || precision === "float32") return `${source}.${missing}`;
  const cosine = difference.cosine === null ? "" : `, cosine of the sentence vector at least ${difference.cosine.toFixed(5)}`;
  const texts = difference.texts ? `, on ${difference.texts} texts` : "";
  return `${source}: from float32, hidden states differ by up to ${difference.hidden.toPrecision(2)}, ` +
    `attention by up to ${difference.attention.toPrecision(2)}${cosine}${texts}.${missing}`;
}

function legendBox() {
  return h("div", { id: "legend", class: "strip-legend" },
    h("div", { class: "segments", role: "radiogroup", "aria-label": "Colours show" }, COLOURS.map((name) =>
      h("label", {}, h("input", { type: "radio", name: "colours", value: name, autocomplete: "off" }), h("span", {}, MEANINGS[name].label)))),
    h("div", { id: "strip-scale", class: "strip-scale" }));
}

// What the colours mean, in one line.
function drawLegend() {
  const meaning = MEANINGS[state.colours];
  for (const input of document.getElementsByName("colours")) {
    input.checked = input.value === state.colours;
    if (input.value === "difference") input.closest("label").hidden = state.frozen === null;
  }
  $("strip-scale").replaceChildren(
    h("span", { class: "dim" }, meaning.low),
    h("span", { class: "ramp", style: `background:${cssGradient(meaning.signed ? -1 : 0, 1)}`, "aria-hidden": "true" }),
    h("span", { class: "dim" }, meaning.high),
    h("span", { class: "meaning" }, meaning.text(current().H)));
}

function tellSentence(text) {
  $("run-status").textContent = text;
}

// The fields as the state has them.
function drawSentence() {
  for (const id of ["text", "pair"]) {
    if ($(id).value !== (state[id] ?? "")) $(id).value = state[id] ?? "";
  }
  $("pair-line").hidden = state.pair === null;
  $("add-pair").hidden = state.pair !== null || !running.model?.canType || (live.config.G || 2) < 2;
  const frozen = state.frozen !== null;
  $("freeze").setAttribute("aria-pressed", String(frozen));
  $("freeze").textContent = frozen ? "Unfreeze" : "Freeze";
  $("frozen-line").hidden = !frozen;
  $("frozen-line").textContent = frozen ? `Compared with “${[state.frozen, state.frozenPair].filter((text) => text !== null).join(" · ")}”, by the model as it was trained` : "";
  drawChanges();
  drawLegend();
}

// With recordings alone there is nothing to type: their sentences can be chosen.
function showWhatCanBeTyped() {
  const { canType } = running.model;
  const sentences = exampleSentences();
  for (const id of ["text", "pair"]) $(id).readOnly = !canType;
  for (const id of ["freeze", "changes"]) $(id).hidden = !canType && sentences.length < 2;
  $("changes").hidden = !canType;
  $("examples").hidden = sentences.length < 2;
  $("examples").replaceChildren(h("option", { value: "" }, canType ? "Examples" : "Recorded sentences"),
    ...sentences.map(({ text, pair }, place) => h("option", { value: place }, pair === null ? text : `${text} · ${pair}`)));
  drawSentence();
}

// The sentences to choose from: what was recorded, what the page was written with, or some for its head.
function exampleSentences() {
  const recorded = (live.recordings || []).map(({ request }) => ({ text: request.text, pair: request.pair ?? null }));
  if (!running.model.canType) return recorded;
  const given = live.sentences?.length ? live.sentences : EXAMPLES[DATA.head] || EXAMPLES.encoder;
  return [...recorded, ...given.map(splitPair)];
}

function setPair(text) {
  state.pair = text;
  drawSentence();
  $(text === null ? "text" : "pair").focus();
  sentenceChanged();
}

function toggleFrozen() {
  const frozen = state.frozen === null;
  Object.assign(state, { frozen: frozen ? state.text : null, frozenPair: frozen ? state.pair : null });
  state.colours = frozen ? "difference" : state.colours === "difference" ? "numbers" : state.colours;
  sentenceChanged();
  if (frozen) $("text").focus();
  announce(frozen ? "This sentence is frozen: type another" : "Nothing is frozen");
}

// Text, pair, switches or the frozen sentence are others: runs the model.
function sentenceChanged() {
  drawSentence();
  keepSentenceInUrl();
  runSentence();
}

let urlTimer = 0;

// Not at every keystroke: browsers refuse hundreds of new addresses in a row.
function keepSentenceInUrl() {
  clearTimeout(urlTimer);
  urlTimer = setTimeout(() => keepInUrl(false), 300);
}

function watchSentence() {
  for (const id of ["text", "pair"]) {
    $(id).addEventListener("input", (event) => {
      state[id] = event.target.value;
      sentenceChanged();
    });
    $(id).addEventListener("keydown", (event) => scrubKey(event));
  }
  $("examples").addEventListener("change", (event) => {
    if (event.target.value === "") return;
    Object.assign(state, exampleSentences()[event.target.value], { token: -1 });
    event.target.value = "";
    sentenceChanged();
  });
  for (const input of document.getElementsByName("colours")) {
    input.addEventListener("change", () => {
      state.colours = input.value;
      keepSentenceInUrl();
      drawLegend();
      paintStrips(true);
    });
  }
  $("changes").addEventListener("toggle", () => $("changes").open && drawSwitchboard());
  document.addEventListener("click", (event) => {
    if (!event.composedPath().includes($("changes"))) $("changes").open = false;
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintHeat);
}

// The theme is another one: other colours.
function repaintHeat() {
  if (!live) return;
  readHeatColours();
  paintStrips(false);
  drawLegend();
  drawOutputs();
}

// After the page is drawn anew: what hangs on the figure's places and on what is chosen.
function renderSentence() {
  document.documentElement.classList.toggle("stacked", sentenceShown());
  drawSide();
  if (!running.trace) return;
  tellSentence(describeRun(running.trace));
  heat.columns = placeColumns(running.trace.tokens, stack.wide);
  drawTokens();
  paintStrips(false);
  drawOutputs();
  showStage();
}

// Where the address leads: the fields, and a run if the sentence is another.
function followSentence() {
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

// Up and down from block to block, wherever the keys have nothing else to do.
function scrubKey(event) {
  const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (!step || event.altKey || event.ctrlKey || event.metaKey || event.target.closest("a, button, summary, [role=button], [tabindex='0'], .panel")) return false;
  scrubBlocks(step);
  event.preventDefault();
  return true;
}
