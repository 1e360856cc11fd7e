// Layer normalization: a vector's distribution before, normalized, and after γ and β.

function normInput(layer) {
  if (layer === "Embedding-Norm") return "Embedding-Position";
  if (layer === "MLM-Norm") return "MLM-Dense";
  return layer.replace(/-Norm$/, "-Add");
}

function drawNorm(scene) {
  const { trace, layer, token, tokens, config } = scene;
  const before = vectorOf(trace, normInput(layer), token);
  const after = vectorOf(trace, layer, token);
  if (!before || !after) return null;
  const { mean, variance } = meanAndDeviation(before);
  const root = Math.sqrt(variance + config.eps);
  const view = { ...scene, before, after, mean, root, normal: before.map((value) => (value - mean) / root) };
  const isVector = layer === `Encoder-${config.L}-FeedForward-Norm` && trace.outputs.vector;
  return {
    kind: layer === "MLM-Norm" ? "mlm" : layer === "Embedding-Norm" ? "embedding" : "joint",
    title: `${quoted(tokens[token])} before and after normalization`,
    formula: "LayerNorm(x) = γ · frac{x − μ}{sqrt{σ^2 + ε}} + β",
    spoken: "gamma times x minus mu over the root of sigma squared plus epsilon, plus beta",
    source: `Ba et al. 2016, section 3, equations 3 and 4; ε = ${tiny(config.eps)}`,
    sees: seeNorm(view),
    body: [h("div", { class: "stage-cards" }, stageCard("How the numbers are distributed", normPlot(view)),
      stageCard("What γ and β do to each dimension", gainPlot(view))), normRows(view), isVector ? vectorCard(scene) : null],
    table: vectorTable({ before, normalized: view.normal, after }),
  };
}

function seeNorm({ tokens, token, before, after }) {
  const [old, now] = [before, after].map(meanAndDeviation);
  return `The numbers of ${quoted(tokens[token])} had the mean ${decimal(old.mean, 3)} and the standard deviation ${decimal(old.deviation)}. ` +
    `They are brought to 0 and 1; then a learned scale γ and offset β per dimension bring them to ${decimal(now.mean, 3)} and ${decimal(now.deviation)}.`;
}

// Three histograms on one axis, with mean and standard deviation.
function normPlot({ before, normal, after }) {
  const rows = [["before", before], ["normalized", normal], ["after γ and β", after]];
  const reach = Math.max(...rows.map(([, values]) => Math.max(quantile([values], 0.995), meanAndDeviation(values).deviation * 2.5)));
  const [width, each] = [plotWidth(2, 640), 96];
  const x = scaleOf(-reach, reach, 12, width - 12);
  const ticks = ticksOf(-reach, reach, 6);
  return s("svg", { class: "stage-plot", width, height: rows.length * each + 30, role: "img",
    "aria-label": rows.map(([name, values]) => `${name}: mean ${decimal(meanAndDeviation(values).mean, 3)}, standard deviation ${decimal(meanAndDeviation(values).deviation)}`).join("; ") },
  rows.map(([name, values], n) => distribution(name, values, { x, reach, base: (n + 1) * each, height: each - 34, width })),
  horizontalAxis(x, rows.length * each + 4, ticks));
}

function distribution(name, values, { x, reach, base, height, width }) {
  const bins = binsOf(values, -reach, reach, 81);
  const tallest = Math.max(...bins);
  const bar = (x(reach) - x(-reach)) / bins.length;
  const { mean, deviation } = meanAndDeviation(values);
  const inside = (value) => x(Math.max(-reach, Math.min(reach, value)));
  return s("g", {},
    s("rect", { class: "plot-band", x: inside(mean - deviation), width: inside(mean + deviation) - inside(mean - deviation), y: base - height, height }),
    Array.from(bins, (count, n) => s("rect", { class: "bar-plain", x: x(-reach) + n * bar + 0.4, width: bar - 0.8, y: base - (count / tallest) * height, height: (count / tallest) * height })),
    s("line", { class: "plot-mean", x1: inside(mean), x2: inside(mean), y1: base - height - 3, y2: base }),
    s("line", { class: "base", x1: 12, x2: width - 12, y1: base, y2: base }),
    s("text", { class: "name", x: 12, y: base - height - 9 }, name),
    s("text", { class: "dim", x: width - 12, y: base - height - 9, "text-anchor": "end" }, width < 400 ? `${decimal(mean, 3)} ± ${decimal(deviation)}` : `mean ${decimal(mean, 3)}, standard deviation ${decimal(deviation)}`));
}

// A point per dimension: normalized across, after γ and β up. Without them all lie on the diagonal.
function gainPlot({ normal, after }) {
  const reach = Math.max(quantile([normal], 0.995), quantile([after], 0.995), 1);
  const [size, top] = [plotWidth(2, 360) - 54, 10];
  const x = scaleOf(-reach, reach, 40, size + 40);
  const y = scaleOf(-reach, reach, size + top, top);
  const ticks = ticksOf(-reach, reach, 6);
  return s("svg", { class: "stage-plot", width: size + 54, height: size + top + 40, role: "img",
    "aria-label": `${normal.length} dimensions, normalized and after gamma and beta` },
  s("clipPath", { id: "gain-clip" }, s("rect", { x: 40, y: top, width: size, height: size })),
  s("line", { class: "base", x1: x(-reach), x2: x(reach), y1: y(0), y2: y(0) }),
  s("line", { class: "base", x1: x(0), x2: x(0), y1: y(-reach), y2: y(reach) }),
  s("line", { class: "plot-diagonal", x1: x(-reach), x2: x(reach), y1: y(-reach), y2: y(reach) }),
  s("path", { class: "plot-points", "clip-path": "url(#gain-clip)", d: pointsPath(normal, after, x, y) }),
  horizontalAxis(x, size + top, ticks, "normalized"), verticalAxis(40, y, ticks),
  s("text", { class: "dim", x: x(0) + 5, y: top + 12 }, "after γ and β"),
  s("text", { class: "dim", x: x(reach) - 6, y: size + top - 8, "text-anchor": "end" }, "dashed: γ = 1, β = 0"));
}

// The learned scale and offset of a dimension, from all tokens' numbers: a line through exact points.
function fitGain({ trace, layer, tokens, config }, dimension) {
  const points = tokens.map((_, token) => {
    const before = vectorOf(trace, normInput(layer), token);
    const { mean, variance } = meanAndDeviation(before);
    return [(before[dimension] - mean) / Math.sqrt(variance + config.eps), vectorOf(trace, layer, token)[dimension]];
  });
  const normal = meanAndDeviation(points.map(([z]) => z));
  if (normal.deviation < 0.05) return null;
  const after = meanAndDeviation(points.map(([, y]) => y));
  const gain = points.reduce((all, [z, y]) => all + (z - normal.mean) * (y - after.mean), 0) / points.length / normal.variance;
  return { gain, offset: after.mean - gain * normal.mean };
}

function normRows(view) {
  const { before, normal, after, mean, root } = view;
  const arithmetic = h("div", { class: "arithmetic", role: "status" });
  const rows = heatRows([{ name: "before", values: before }, { sign: "↓", name: "normalized", values: normal }, { sign: "↓", name: "after γ, β", values: after }], {
    onPick: (n) => {
      const fit = fitGain(view, n);
      arithmetic.replaceChildren(...[
        mathOf(`frac{${decimal(before[n])} − ${bracketed(decimal(mean, 3))}}{${decimal(root)}} = ${decimal(normal[n])}`),
        h("span", { class: "dim" }, "then"),
        mathOf(`γ · ${bracketed(decimal(normal[n]))} + β`),
        fit ? mathOf(`= ${decimal(fit.gain)} · ${bracketed(decimal(normal[n]))} + ${bracketed(decimal(fit.offset))}`) : null,
        mathOf(`= ${decimal(after[n])}`),
      ].filter(Boolean));
    },
  });
  return stageCard("One dimension, written out", rows, arithmetic);
}
