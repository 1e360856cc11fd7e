// Any other tensor as a heat map, a row per token; the inputs; dropout.

// A dropout layer does nothing when the model is used: its output is its input.
const dropoutInput = (layer) => ({ "Embedding-Dropout": "Embedding-Position", "Classifier-Dropout": "NSP-Dense" })[layer] ||
  layer.replace(/-Dropout$/, "");

function drawTensor(scene) {
  const { trace, layer, token, tokens, config } = scene;
  const isDropout = layer.endsWith("-Dropout");
  const last = `Encoder-${config.L}-FeedForward-Norm`;
  const name = isDropout && !trace.tensors.has(layer) ? dropoutInput(layer) : layer;
  const found = trace.tensors.get(name) ||
    (layer === "TokenClassifier-Dropout" ? trace.tensors.get(last) : null);
  if (!found) return drawNothing(layer);
  const perToken = found.shape.length > 1 && found.shape[0] === tokens.length;
  return {
    kind: isDropout ? "joint" : "other",
    title: isDropout ? "Dropout does nothing here" : `The output of ${layer}`,
    formula: isDropout ? "y = x" : null,
    source: isDropout ? "Devlin et al. 2019, appendix A.2: dropout of 0.1, in training only" : null,
    sees: (isDropout ? "In training it sets random values to 0. When the model is used, its output is its input, unchanged. " : "") +
      seeTensor(scene, found, perToken),
    withoutToken: !perToken,
    body: [tensorMap(scene, found, perToken)],
    table: () => tensorTable(scene, found, perToken),
  };
}

const drawNothing = (layer) => ({
  kind: "other", title: layer, sees: "This layer has no numbers in this page: it only passes on what it reads.",
  withoutToken: true, body: [],
});

function seeTensor({ tokens, token }, tensor, perToken) {
  const width = tensor.data.length / (perToken ? tokens.length : 1);
  const values = perToken ? tensor.data.subarray(token * width, (token + 1) * width) : tensor.data;
  const { mean, deviation } = meanAndDeviation(values);
  const whose = perToken ? `The ${grouped(width)} numbers of ${quoted(tokens[token])}` : `These ${grouped(width)} numbers`;
  return `${whose} have the mean ${decimal(mean)} and the standard deviation ${decimal(deviation)}.`;
}

function tensorMap({ tokens, token }, tensor, perToken) {
  const width = tensor.data.length / (perToken ? tokens.length : 1);
  if (!perToken) return heatRows([{ name: "value", values: tensor.data }], {});
  const limit = quantile([tensor.data], 0.98);
  const values = vectorSlice(tensor, token, width);
  const readout = h("p", { class: "map-readout dim", role: "status" }, "Point at a cell to read its value.");
  let map = null;
  const row = heatRows([{ name: tokens[token].text, values }], { onPick: (n) => {
    if (map) markMap(map, token, n);
  } });
  const slider = row.querySelector("input");
  map = heatMap({
    name: "All tokens", under: `${tokens.length} rows, ${grouped(width)} columns`, values: tensor.data, rows: tokens, columns: width,
    limit, cell: Math.max(4, Math.min(20, Math.floor(480 / tokens.length))),
    onPick: (at, column, event) => {
      readout.textContent = `${tokens[at].text}, dimension ${column + 1}: ${decimal(tensor.data[at * width + column])}`;
      markMap(map, at, column);
      if (event.type === "pointerdown" && at !== token) chooseToken(at);
      else if (at === token) { slider.value = column + 1; slider.dispatchEvent(new Event("input")); }
    },
  });
  markMap(map, token, Number(slider.value) - 1);
  return stageCard("The whole tensor", map, readout, h("div", { class: "stage-gap" }, row));
}

const vectorSlice = (tensor, token, width) => tensor.data.subarray(token * width, (token + 1) * width);

function tensorTable({ tokens, token }, tensor, perToken) {
  const width = tensor.data.length / (perToken ? tokens.length : 1);
  const values = perToken ? vectorSlice(tensor, token, width) : tensor.data;
  return { columns: ["dimension", perToken ? tokens[token].text : "value"],
    rows: Array.from(values, (value, n) => [String(n + 1), decimal(value)]) };
}

// The inputs have no tensor of their own: they are the tokens' ids and segments.
function drawInputs({ tokens, token, layer }) {
  const words = tokens.filter((candidate) => !candidate.special).length;
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
