// Any other tensor as a heat map, a row per token; the inputs; dropout.

// A dropout layer does nothing when the model is used: its output is its input.
function drawTensor(scene) {
  const { trace, layer, token, tokens } = scene;
  const isDropout = layer.endsWith("-Dropout");
  const tensor = findTensor(trace, layer);
  if (!tensor) return drawNothing(layer);
  const perToken = tensor.shape.length > 1 && tensor.shape[0] === tokens.length;
  const width = perToken ? tensor.data.length / tokens.length : tensor.data.length;
  const values = perToken ? tensor.data.subarray(token * width, (token + 1) * width) : tensor.data;
  const { mean, deviation } = meanAndDeviation(values);
  const name = perToken ? tokens[token].text : "value";
  return {
    title: isDropout ? "Dropout does nothing here" : `The output of ${layer}`,
    formula: isDropout ? "y = x" : null,
    source: isDropout ? "Devlin et al. 2019, appendix A.2: dropout in training only" : "",
    sees: `The ${grouped(width)} numbers${perToken ? ` of “${name}”` : ""} have the mean ` +
      `${decimal(mean, 3)} and the standard deviation ${decimal(deviation)}.`,
    body: [stageCard("The whole tensor", perToken ? tensorMap(scene, tensor.data, width) : null,
      heatRows([{ name, values }]))],
    table: vectorTable({ [name]: values }),
  };
}

const isUntrained = (layer) => DATA.missing?.some((name) => name.startsWith(`${layer}/`));

const drawNothing = (layer) => ({
  title: layer, body: [],
  sees: isUntrained(layer) ? "The checkpoint has no weights of this layer: it is not trained, and no sentence goes through it."
    : live.leftOut?.length ? "The numbers of this layer are not recorded in this page."
      : "This layer has no numbers of its own here: it passes on what it reads.",
});

function tensorMap({ tokens, token }, data, width) {
  const map = heatMap({
    name: "All tokens", under: `${tokens.length} rows, ${grouped(width)} columns`,
    values: data, rows: tokens, columns: width,
    cell: Math.max(4, Math.min(20, Math.floor(480 / tokens.length))),
    onPick: (row, column, event) => {
      markMap(map, row, column);
      if (event.type === "pointerdown") chooseToken(row);
    },
  });
  markMap(map, token, null);
  return map;
}

// The inputs have no tensor of their own: they are the tokens' ids and segments.
function drawInputs({ tokens, token }) {
  if (tokens[token].id === null) return null;  // of an attention map
  const added = tokens.filter(isMarker).length;
  return {
    title: "The sentence in tokens",
    source: "Devlin et al. 2019, section 3, figure 2",
    sees: `The tokenizer cuts the text into ${tokens.length - added} tokens of its vocabulary ` +
      `and adds ${added} special ones. The model reads numbers only: ${quoted(tokens[token])} is ` +
      `${grouped(tokens[token].id)}.`,
    body: [stageTable({
      columns: ["token", "id", "segment", "position"],
      rows: tokens.map(({ text, id, segment }, n) => [text, id, segment, n + 1]),
    })],
  };
}
