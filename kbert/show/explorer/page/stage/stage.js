// The stage: the tensor of the chosen box, large, with its formula and one value's arithmetic.

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
  host.style.setProperty("--plus", cssColour(1));
  host.style.setProperty("--minus", cssColour(-1));
  Object.assign(stage, { host, trace, layer, token: findToken(trace, token), width: host.clientWidth });
  const scene = {
    host, trace, layer, token: stage.token, tokens: trace.tokens,
    block: Number(/^Encoder-(\d+)-/.exec(layer)?.[1] || 0), config: DATA.live.config,
  };
  const [, draw] = STAGE_DRAWINGS.find(([pattern]) => pattern.test(layer)) || [null, drawTensor];
  host.replaceChildren(...frameStage(scene, draw(scene) || drawTensor(scene)));
  if (focused) host.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

// The first word, where no token is chosen.
function findToken({ tokens }, token) {
  if (token !== null && token >= 0 && token < tokens.length) return token;
  return Math.max(0, tokens.findIndex((candidate) => !isAdded(candidate)));
}

function redrawStage() {
  if (stage.host?.isConnected) drawStage(stage.host, stage.trace, stage.layer, stage.token);
}

// Colours of canvases change with the theme.
function watchTheme() {
  new MutationObserver(redrawStage).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawStage);
}
if (live) watchTheme();

// Plots are drawn as wide as there is room.
const watchWidth = new ResizeObserver(([{ target }]) => {
  if (target === stage.host && Math.abs(target.clientWidth - stage.width) > 1) redrawStage();
});

// The width for a plot in one of some cards beside each other, as stage.css places them.
function plotWidth(columns, most) {
  const inside = stage.width - 48;
  const beside = inside < 620 ? 1 : inside < 1080 ? Math.min(columns, 2) : columns;
  return Math.max(240, Math.min(most, (inside - 16 * (beside - 1)) / beside - 36));
}

// Keeps another token lit, here and in the figure.
function chooseToken(token) {
  if (token !== state.token) keepToken(token);
}

// A drawing is {kind, title, under, formula, spoken, source, sees, controls, body, table}:
// `sees` is one sentence about these numbers, `table` makes {columns, rows} of them.
function frameStage(scene, drawing) {
  return [
    h("header", { class: `stage-head k-${drawing.kind}` },
      h("div", { class: "stage-place" }, h("i", { class: "swatch", "aria-hidden": "true" }), h("span", {}, scene.layer),
        blockControl(scene), drawing.withoutToken ? null : tokenControl(scene), drawing.controls || []),
      h("div", {}, h("h2", {}, drawing.title), h("p", { class: "stage-sees" }, drawing.sees)),
      drawing.formula || drawing.source ? h("div", { class: "stage-formula" },
        drawing.formula ? mathOf(drawing.formula, drawing.spoken) : null, h("p", { class: "dim" }, drawing.source)) : null),
    ...drawing.body.filter(Boolean),
    drawing.table ? numbersTable(drawing.table) : null,
  ].filter(Boolean);
}

function selectControl(label, key, options, chosen, choose) {
  const select = h("select", { "data-key": key, "aria-label": label, onchange: () => choose(Number(select.value)) },
    options.map(({ value, text }) => h("option", { value, selected: value === chosen }, text)));
  return h("label", { class: "stage-control" }, h("span", { class: "dim" }, label), select);
}

const tokenOptions = (tokens) => tokens.map((token, value) => ({ value, text: `${value + 1} ${token.text}` }));

function tokenControl({ tokens, token }) {
  return selectControl("Token", "token", tokenOptions(tokens), token, chooseToken);
}

// The same layer in another block.
function blockControl({ block, config, layer }) {
  if (!block || config.L === 1) return null;
  const options = Array.from({ length: config.L }, (_, n) => ({ value: n + 1, text: String(n + 1) }));
  const inBlock = (number) => layer.replace(/^Encoder-\d+-/, `Encoder-${number}-`).replace(/\/head-\d+$/, "/heads");
  return selectControl("Block", "block", options, block, (number) => go(inBlock(number)));
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
