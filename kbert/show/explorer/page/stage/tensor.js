// Any other tensor as a heat map, a row per token; the inputs; dropout.

// A dropout layer does nothing when the model is used: its output is its input.
const dropoutInput = (layer) => ({ "Embedding-Dropout": "Embedding-Position", "Classifier-Dropout": "NSP-Dense" })[layer] ||
  layer.replace(/-Dropout$/, "");

function drawTensor(scene) {
  const { trace, layer, token, tokens, config } = scene;
  const isDropout = layer.endsWith("-Dropout");
  const name = layer === "TokenClassifier-Dropout" ? `Encoder-${config.L}-FeedForward-Norm` : isDropout ? dropoutInput(layer) : layer;
  const tensor = trace.tensors.get(name);
  if (!tensor) return drawNothing(layer);
  const perToken = tensor.shape.length > 1 && tensor.shape[0] === tokens.length;
  const values = perToken ? vectorOf(trace, name, token) : tensor.data;
  const { mean, deviation } = meanAndDeviation(values);
  const whose = perToken ? `The ${grouped(values.length)} numbers of ${quoted(tokens[token])}` : `These ${grouped(values.length)} numbers`;
  return {
    kind: isDropout ? "joint" : "other",
    title: isDropout ? "Dropout does nothing here" : `The output of ${layer}`,
    formula: isDropout ? "y = x" : null,
    source: isDropout ? "Devlin et al. 2019, appendix A.2: dropout of 0.1, in training only" : null,
    sees: `${isDropout ? "In training it sets random values to 0; when the model is used, its output is its input. " : ""}` +
      `${whose} have the mean ${decimal(mean, 3)} and the standard deviation ${decimal(deviation)}.`,
    withoutToken: !perToken,
    body: [stageCard("The whole tensor", ...(perToken ? tensorMap(scene, tensor, values) : [heatRows([{ name: "value", values }], {})]))],
    table: vectorTable({ [perToken ? tokens[token].text : "value"]: values }),
  };
}

const drawNothing = (layer) => ({
  kind: "other", title: layer, sees: "This layer has no numbers of its own here: it passes on what it reads.", withoutToken: true, body: [],
});

// All tokens' rows, and the chosen token's row with its slider; a pointer moves along both.
function tensorMap({ tokens, token }, { data }, values) {
  const width = values.length;
  const readout = h("p", { class: "map-readout dim", role: "status" }, "Point at a cell to read its value.");
  const map = heatMap({
    name: "All tokens", under: `${tokens.length} rows, ${grouped(width)} columns`, values: data, rows: tokens, columns: width,
    cell: Math.max(4, Math.min(20, Math.floor(480 / tokens.length))),
    onPick: (at, column, event) => {
      readout.textContent = `${tokens[at].text}, dimension ${column + 1}: ${decimal(data[at * width + column])}`;
      markMap(map, at, column);
      if (event.type === "pointerdown" && at !== token) chooseToken(at);
    },
  });
  const row = heatRows([{ name: tokens[token].text, values }], { onPick: (n) => markMap(map, token, n) });
  return [map, readout, h("div", { class: "stage-gap" }, row)];
}

// The inputs have no tensor of their own: they are the tokens' ids and segments.
function drawInputs({ tokens, token, layer }) {
  const words = tokens.filter((candidate) => !isAdded(candidate)).length;
  return {
    kind: "input",
    title: "The sentence in tokens",
    source: "Devlin et al. 2019, section 3, figure 2",
    sees: `The tokenizer cuts the text into ${plural(words, "piece")} of its vocabulary and adds ` +
      `${plural(tokens.length - words, "special token")}. The model reads numbers only: ${quoted(tokens[token])} is ${grouped(tokens[token].id)}.`,
    body: [h("div", { class: "stage-rows", tabindex: 0, role: "region", "aria-label": "Tokens" },
      h("table", { class: "stage-table token-table" }, h("tbody", {},
        inputRow("token", tokens, token, ({ text }) => text),
        inputRow("id", tokens, token, ({ id }) => String(id), layer === "Input-Token"),
        inputRow("segment", tokens, token, ({ segment }) => String(segment), layer === "Input-Segment"),
        inputRow("position", tokens, token, (_, n) => String(n + 1)))))],
  };
}

function inputRow(title, tokens, token, textOf, isChosen = false) {
  return h("tr", { class: isChosen ? "row-chosen" : null }, h("th", { scope: "row" }, title),
    tokens.map((candidate, n) => h("td", { class: n === token ? "cell-chosen" : null }, textOf(candidate, n))));
}
