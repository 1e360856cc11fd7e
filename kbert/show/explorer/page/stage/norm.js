// Layer normalization: a vector's distribution before, normalized, and after γ and β.

const NORM_INPUTS = { "Embedding-Norm": "Embedding-Position", "MLM-Norm": "MLM-Dense" };
const normInput = (layer) => NORM_INPUTS[layer] || layer.replace(/-Norm$/, "-Add");

function drawNorm(scene) {
  const { trace, layer, token, tokens, config } = scene;
  const before = vectorOf(trace, normInput(layer), token);
  const after = vectorOf(trace, layer, token);
  if (!before || !after) return null;
  const old = meanAndDeviation(before);
  const now = meanAndDeviation(after);
  const normalized = standardize(before, config);
  return {
    title: `${quoted(tokens[token])} before and after normalization`,
    formula: "LayerNorm(x) = γ · frac{x − μ}{sqrt{σ^2 + ε}} + β",
    source: `Ba et al. 2016, section 3, equations 3 and 4; ε = ${tiny(config.eps)}`,
    sees: `The numbers of ${quoted(tokens[token])} had the mean ${decimal(old.mean, 3)} and the ` +
      `standard deviation ${decimal(old.deviation)}. They are brought to 0 and 1; then a learned ` +
      `scale γ and offset β per dimension bring them to ${decimal(now.mean, 3)} and ` +
      `${decimal(now.deviation)}.`,
    body: [h("div.stage-cards",
      stageCard("How the numbers are distributed",
        normPlot({ before, normalized, "after γ and β": after })),
      normRows(scene, before, normalized, after))],
    table: vectorTable({ before, normalized, after }),
  };
}

function standardize(vector, { eps }) {
  const { mean, variance } = meanAndDeviation(vector);
  return vector.map((value) => (value - mean) / Math.sqrt(variance + eps));
}

const NORM_ROW = 84;

function normPlot(vectors) {
  const rows = Object.entries(vectors)
    .map(([name, values]) => ({ name, values, ...meanAndDeviation(values) }));
  const reach = Math.max(...rows.map(({ values, deviation }) =>
    Math.max(quantile([values], 0.995), deviation * 2.5)));
  const x = scaleOf(-reach, reach, 8, PLOT - 8);
  const told = ({ mean, deviation }) =>
    `mean ${decimal(mean, 3)}, standard deviation ${decimal(deviation)}`;
  const spoken = rows.map((row) => `${row.name}: ${told(row)}`).join("; ");
  return plotOf(rows.length * NORM_ROW + 20, spoken,
    rows.map((row, n) => {
      const base = (n + 1) * NORM_ROW;
      return s("g",
        s("text", { x: 8, y: base - NORM_ROW + 22 }, row.name),
        s("text.dim", { x: PLOT - 8, y: base - NORM_ROW + 22, "text-anchor": "end" },
          told(row)),
        s("path.plot-bars", { d: histogramPath(row.values, -reach, reach, x, base, NORM_ROW - 32) }));
    }),
    horizontalAxis(x, rows.length * NORM_ROW, ticksOf(-reach, reach)));
}

// The learned scale and offset of a dimension: the line that all tokens' numbers lie on.
function fitGain({ trace, layer, tokens, config }, dimension) {
  const points = tokens.map((_, token) => [
    standardize(vectorOf(trace, normInput(layer), token), config)[dimension],
    vectorOf(trace, layer, token)[dimension],
  ]);
  const normal = meanAndDeviation(points.map(([z]) => z));
  if (normal.deviation < 0.05) return null;
  const after = meanAndDeviation(points.map(([, y]) => y));
  const products = points.map(([z, y]) => (z - normal.mean) * (y - after.mean));
  const gain = meanAndDeviation(products).mean / normal.variance;
  return { gain, offset: after.mean - gain * normal.mean };
}

function normRows(scene, before, normalized, after) {
  const { mean, variance } = meanAndDeviation(before);
  const root = decimal(Math.sqrt(variance + scene.config.eps));
  const rows = [
    { name: "before", values: before },
    { name: "↓ normalized", values: normalized },
    { name: "↓ after γ, β", values: after },
  ];
  return arithmeticCard("One dimension, written out", rows, (n) => {
    const fit = fitGain(scene, n);
    const normal = bracketed(decimal(normalized[n]));
    const learned = fit ? [`= ${decimal(fit.gain)} · ${normal} + ${bracketed(decimal(fit.offset))}`] : [];
    return [
      `frac{${decimal(before[n])} − ${bracketed(decimal(mean, 3))}}{${root}} = ${decimal(normalized[n])}`,
      `γ · ${normal} + β`, ...learned, `= ${decimal(after[n])}`,
    ];
  });
}
