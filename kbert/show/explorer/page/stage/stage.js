// The stage: the tensor of the chosen box, large, with its formula and one value's arithmetic.

const STAGE_DRAWINGS = [
  [/^Input-/, drawInputs],
  [/^Embedding-(Token|Segment|Token-Segment|Position)$/, drawEmbeddings],
  [/-MultiHeadSelfAttention(\/\w+(-\d+)?)?$/, drawAttention],
  [/-FeedForward$/, drawFeedForward],
  [/-Add$/, drawResidual],
  [/-Norm$/, drawNorm],
  [/./, drawAnswer],
];

// What is drawn, and what was chosen in it; kept from one drawing to the next.
const stage = {
  host: null, trace: null, layer: "", token: 0, width: 0, isOpen: false,
  dimension: null, headDimension: null, neuron: null,
};

// Draws a layer's tensor into an element. `token` is the index of the chosen token; −1: any.
function drawStage(host, trace, layer, token = -1) {
  const focused = host.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const chosen = findToken(trace, token);
  Object.assign(stage, { host, trace, layer, token: chosen, width: host.clientWidth });
  const scene = {
    trace, layer, token: chosen, tokens: trace.tokens, config: DATA.live.config,
    block: Number(/^Encoder-(\d+)-/.exec(layer)?.[1] || 0),
  };
  const [, draw] = STAGE_DRAWINGS.find(([pattern]) => pattern.test(layer));
  host.replaceChildren(...frameStage(scene, draw(scene) || drawTensor(scene)));
  const again = focused && host.querySelector(`[data-key="${CSS.escape(focused)}"]`);
  if (again) again.focus({ preventScroll: true });
}

function findToken({ tokens }, token) {
  if (token >= 0 && token < tokens.length) return token;
  return Math.max(0, tokens.findIndex((candidate) => !isMarker(candidate)));
}

function redrawStage() {
  if (stage.host?.isConnected) drawStage(stage.host, stage.trace, stage.layer, stage.token);
}

function chooseToken(token) {
  if (token !== state.token) keepToken(token);
}

// A drawing is {title, formula, source, sees, body, table}: `sees` is one sentence about these
// numbers, `table` makes {columns, rows} of them.
function frameStage({ layer, tokens, token }, { title, formula, source, sees, body, table }) {
  const kind = layerOf(layer, current())?.row.kind;
  return [
    h("header", { class: `stage-head k-${kind}` },
      h("div.stage-place",
        h("i.swatch", { "aria-hidden": "true" }), h("span", layer),
        selectControl("token", tokenOptions(tokens), token, chooseToken)),
      h("div", h("h2", title), h("p.stage-sees", sees)),
      formula || source ? h("div.stage-formula",
        formula ? mathOf(formula) : null, h("p.dim", source)) : null),
    ...body, table ? numbersTable(table) : null,
  ].filter(Boolean);
}

function selectControl(label, options, chosen, choose) {
  const select = h("select", {
    "data-key": label, "aria-label": label, onchange: () => choose(Number(select.value)),
  }, options.map(({ value, text }) => h("option", { value, selected: value === chosen }, text)));
  return h("label.stage-control", h("span.dim", label), select);
}

const tokenOptions = (tokens) =>
  tokens.map((token, value) => ({ value, text: `${value + 1} ${token.text}` }));

function numbersTable(makeTable) {
  const details = h("details.stage-numbers", {
    open: stage.isOpen,
    ontoggle: () => {
      stage.isOpen = details.open;
      if (details.open && details.children.length === 1) details.append(stageTable(makeTable()));
    },
  }, h("summary", { "data-key": "numbers" }, "The same in numbers"));
  return details;
}

function stageTable({ columns, rows }) {
  return h("div.stage-rows", { tabindex: 0, role: "region", "aria-label": "Numbers" },
    tableOf({ class: "stage-table" }, columns, rows));
}

const stageCard = (title, ...children) =>
  h("section.stage-card", h("h3", title), ...children);
