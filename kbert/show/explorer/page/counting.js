// Counts of a configuration, in BigInts, by the formulas of the closed forms (FORMULAS).

const generic = Boolean(DATA.generic);  // a model that kbert did not build

const LETTER = /\(H\/A\)|[A-Za-z]+/g;
const NOTATION = /\(H\/A\)|[A-Za-z]+|\d+|[+·()]/g;

const ATTENTION_LAYER = "Encoder-{n}-MultiHeadSelfAttention";
const MEASURES = ["params", "flops", "bytes", "kept"];

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0n);

// Whether a head reads all positions, or those of the predictions.
const graphKind = ({ M }) => (M === null || M === undefined ? "all" : "gathered");

// The rows of the configuration's graph: before the encoder, of a block, after the encoder.
const graphOf = (config) => DATA.graphs[graphKind(config)];

// The tokens of the longest sequence: RoBERTa leaves the first positions unused.
const positionsOf = (config) => config.P - (DATA.firstPosition || 0);

function lettersOf(config) {
  const [weight, , , activation] = DATA.dtypes[config.dtype].map(BigInt);
  const letters = { w: activation, weightBytes: weight };
  for (const letter of Object.keys(DATA.letters)) {
    if (config[letter] !== null && config[letter] !== undefined) {
      letters[letter] = BigInt(config[letter]);
    }
  }
  return letters;
}

// A formula's text for a reader: segments and labels are numbers there, as Python prints them.
function formulaText(formula, config) {
  return formula.replace(LETTER, (letter) =>
    letter === "G" || letter === "K" ? String(config[letter]) : letter);
}

function inNumbers(formula, config) {
  const letters = lettersOf(config);
  return formula.replace(LETTER, (letter) =>
    letter === "(H/A)" ? String(letters.H / letters.A) : String(letters[letter]));
}

// The same as MathML, which browsers set without a script.
function mathml(formula, config, inNumbersToo) {
  const letters = lettersOf(config);
  const number = (value) => `<mn>${value.toLocaleString("en-US")}</mn>`;
  const text = formula.replace(NOTATION, (sign) => {
    if (/\d/.test(sign)) return `<mn>${sign}</mn>`;
    if (sign === "(") return "<mrow><mo>(</mo>";
    if (sign === ")") return "<mo>)</mo></mrow>";
    if (sign === "+" || sign === "·") return `<mo>${sign}</mo>`;
    if (sign === "(H/A)") {
      return inNumbersToo ? number(letters.H / letters.A) : "<mfrac><mi>H</mi><mi>A</mi></mfrac>";
    }
    return inNumbersToo || sign === "G" || sign === "K" ? number(letters[sign])
      : `<mi>${sign}</mi>`;
  });
  return `<math>${text.replaceAll(" ", "")}</math>`;
}

function shapeOf(shape, config) {
  const sizes = { ...lettersOf(config), N: "None" };
  if (DATA.anyLength && config.S === DATA.values.S) sizes.S = "None";
  const size = (letter) => (letter === "(H/A)" ? sizes.H / sizes.A : sizes[letter] ?? letter);
  return shape.replace(LETTER, (letter) => String(size(letter)));
}

function costsOf(row, letters) {
  const params = FORMULAS[row.params](letters);
  const [flops, kept] = [row.flops, row.kept].map((formula) => FORMULAS[formula](letters));
  return { params, flops, bytes: params * letters.weightBytes, kept };
}

const byMeasure = (amountOf) =>
  Object.fromEntries(MEASURES.map((measure) => [measure, amountOf(measure)]));
const added = (costs) => byMeasure((measure) => sum(costs.map((one) => one[measure])));
const times = (costs, number) => byMeasure((measure) => costs[measure] * number);

// What a configuration comes to: by row, by group, in all, and the memory of a training step.
function count(config) {
  const letters = lettersOf(config);
  const graph = graphOf(config);
  const blocks = BigInt(config.L);
  const byRow = {};
  const byGroup = {};
  for (const place of ["before", "block", "after"]) {
    for (const row of graph[place]) {
      byRow[row.name] = costsOf(row, letters);
      const whole = times(byRow[row.name], place === "block" ? blocks : 1n);
      byGroup[row.group] = byGroup[row.group] ? added([byGroup[row.group], whole]) : whole;
    }
  }
  for (const part of DATA.parts) {
    byRow[`${ATTENTION_LAYER}/${part.name}`] = costsOf(part, letters);
  }
  const block = added(graph.block.map((row) => byRow[row.name]));
  const total = added(Object.values(byGroup));
  return {
    byRow, byGroup, block, total,
    encoder: times(block, blocks),
    training: 3n * total.flops / BigInt(config.B),
    memory: memoryOf(config, total),
  };
}

function memoryOf(config, total) {
  const [weight, gradient, adam] = DATA.dtypes[config.dtype].map(BigInt);
  const [weights, gradients, moments] = [weight, gradient, adam].map((one) => one * total.params);
  const parts = { weights, gradients, adam: moments, activations: total.kept };
  return { ...parts, total: sum(Object.values(parts)) };
}
