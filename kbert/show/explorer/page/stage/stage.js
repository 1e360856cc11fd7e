// The stage: the tensor of the chosen box, large, with its formula and one value's arithmetic.
//
// It tells its host what was chosen in it by two events that can be cancelled: "stage-layer" with a
// layer's id and "stage-token" with a token's index. Whoever cancels one draws the stage himself.

const STAGE_DRAWINGS = [
  [/^Input-/, drawInputs],
  [/^Embedding-(Token|Segment|Token-Segment|Position)$/, drawEmbeddings],
  [/-MultiHeadSelfAttention(\/\w+(-\d+)?)?$/, drawAttention],
  [/-FeedForward$/, drawFeedForward],
  [/-Add$/, drawResidual],
  [/-Norm$/, drawNorm],
  [/^MLM(-Sim)?$/, drawWords],
  [/^NSP$/, drawNextSentence],
  [/^(Classifier|TokenClassifier|Span|Span-Start|Span-End)$/, drawLabels],
  [/^Sentence-Vector$/, drawSentenceVector],
];

// What is drawn, and what was chosen in it; kept from one drawing to the next.
const stage = {
  host: null, trace: null, layer: "", token: 0, dimension: null, headDimension: null, neuron: null, column: null, hidesSpecial: false, isOpen: false, width: 0,
};

// Draws a layer's tensor into an element. `token` is the index of the chosen token; null: any.
function drawStage(host, trace, layer, token = null) {
  if (stage.layer !== layer || stage.trace?.tokens.length !== trace.tokens.length) stage.column = null;
  const focused = host.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  if (stage.host !== host) watchWidth.observe(host);
  host.classList.add("stage");
  Object.assign(stage, { host, trace, layer, token: chooseToken(trace, token), width: host.clientWidth });
  const scene = {
    host, trace, layer, token: stage.token, tokens: trace.tokens,
    block: Number(/^Encoder-(\d+)-/.exec(layer)?.[1] || 0), config: DATA.live.config,
  };
  const [, draw] = STAGE_DRAWINGS.find(([pattern]) => pattern.test(layer)) || [null, drawTensor];
  host.replaceChildren(...frameStage(scene, draw(scene) || drawTensor(scene)));
  if (focused) host.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

// The first word, where no token is chosen.
function chooseToken({ tokens }, token) {
  if (token !== null && token >= 0 && token < tokens.length) return token;
  return Math.max(0, tokens.findIndex((candidate) => !candidate.special));
}

function redrawStage() {
  if (stage.host?.isConnected) drawStage(stage.host, stage.trace, stage.layer, stage.token);
}

// Colours of canvases change with the theme.
function watchTheme() {
  new MutationObserver(redrawStage).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  darkScheme.addEventListener("change", redrawStage);
}
watchTheme();

// Plots are drawn as wide as there is room.
const watchWidth = new ResizeObserver(([{ target }]) => {
  if (target === stage.host && Math.abs(target.clientWidth - stage.width) > 1) redrawStage();
});

// The width for a plot in one of some cards beside each other, as stage.css places them.
function plotWidth(columns, most) {
  const inside = stage.width - 48;
  const beside = inside < 720 ? 1 : inside < 1080 ? Math.min(columns, 2) : columns;
  return Math.max(240, Math.min(most, (inside - 16 * (beside - 1)) / beside - 36));
}

function chooseOnStage(kind, detail) {
  const event = new CustomEvent(`stage-${kind}`, { detail, cancelable: true, bubbles: true });
  if (!stage.host.dispatchEvent(event)) return;
  if (kind === "layer") drawStage(stage.host, stage.trace, detail, stage.token);
  else drawStage(stage.host, stage.trace, stage.layer, detail);
}

// A drawing is {kind, title, under, formula, spoken, source, sees, controls, body, table}:
// `sees` is one sentence about these numbers, `table` makes {columns, rows} of them.
function frameStage(scene, drawing) {
  return [
    h("header", { class: `stage-head k-${drawing.kind}` },
      h("div", { class: "stage-title" },
        h("p", { class: "stage-place" }, h("i", { class: "swatch", "aria-hidden": "true" }), placeText(scene)),
        h("h2", {}, drawing.title),
        h("p", { class: "stage-sees" }, drawing.sees)),
      h("div", { class: "stage-formula" },
        drawing.formula ? h("div", {}, mathOf(drawing.formula, drawing.spoken)) : null,
        drawing.source ? h("p", { class: "dim" }, drawing.source) : null)),
    h("div", { class: "stage-controls" }, blockControl(scene), drawing.withoutToken ? null : tokenControl(scene),
      drawing.controls || []),
    ...drawing.body.filter(Boolean),
    drawing.table ? numbersTable(drawing.table) : null,
  ].filter(Boolean);
}

function placeText({ block, config, layer }) {
  return [block ? `Encoder block ${block} of ${config.L}` : null, layer].filter(Boolean).join(" · ");
}

function selectControl(label, key, options, chosen, choose) {
  const select = h("select", { "data-key": key, "aria-label": label, onchange: () => choose(Number(select.value)) },
    options.map(({ value, text }) => h("option", { value, selected: value === chosen }, text)));
  return h("label", { class: "stage-control" }, h("span", { class: "dim" }, label), select);
}

const tokenOptions = (tokens) => tokens.map((token, value) => ({ value, text: `${value + 1} ${token.text}` }));

function tokenControl({ tokens, token }) {
  return selectControl("Token", "token", tokenOptions(tokens), token, (index) => chooseOnStage("token", index));
}

// The same layer in another block.
function blockControl({ block, config, layer }) {
  if (!block || config.L === 1) return null;
  const options = Array.from({ length: config.L }, (_, n) => ({ value: n + 1, text: String(n + 1) }));
  const inBlock = (number) => layer.replace(/^Encoder-\d+-/, `Encoder-${number}-`).replace(/\/head-\d+$/, "/heads");
  return selectControl("Block", "block", options, block, (number) => chooseOnStage("layer", inBlock(number)));
}

// The numbers as a table, made when it is opened.
function numbersTable(makeTable) {
  const body = h("div", { class: "stage-rows", tabindex: 0, role: "region", "aria-label": "The same in numbers" });
  const cells = (row) => row.map((value, n) => h(n ? "td" : "th", n ? {} : { scope: "row" }, value));
  const fillTable = () => {
    const { columns, rows } = makeTable();
    body.replaceChildren(h("table", { class: "stage-table" },
      h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col" }, column)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, cells(row))))));
  };
  const details = h("details", { class: "stage-numbers", open: stage.isOpen, ontoggle: () => {
    stage.isOpen = details.open;
    if (details.open && !body.firstChild) fillTable();
  } }, h("summary", { "data-key": "numbers" }, "The same in numbers"), body);
  return details;
}

// A card with a title, for one step of an arithmetic.
const stageCard = (title, ...children) => h("section", { class: "stage-card" }, h("h3", {}, title), ...children);
