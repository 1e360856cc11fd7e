// The feed-forward layer: the activation's curve with the token's points on it.

const ACTIVATION_CURVES = {
  gelu: (x) => x * normalShare(x),
  gelu_new: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  relu: (x) => Math.max(0, x),
  silu: (x) => x / (1 + Math.exp(-x)),
  tanh: Math.tanh,
};
ACTIVATION_CURVES.gelu_pytorch_tanh = ACTIVATION_CURVES.gelu_new;
ACTIVATION_CURVES.swish = ACTIVATION_CURVES.silu;

// The share of a normal distribution below x: Abramowitz and Stegun 1964, 7.1.26 (error below 2e-7).
function normalShare(x) {
  const t = 1 / (1 + 0.3275911 * (Math.abs(x) / Math.SQRT2));
  const series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  const upper = series * Math.exp((-x * x) / 2) / 2;
  return x < 0 ? upper : 1 - upper;
}

function drawFeedForward(scene) {
  const { trace, layer, token, tokens } = scene;
  const before = vectorOf(trace, `${layer}/intermediate`, token);
  const after = vectorOf(trace, `${layer}/activation`, token);
  if (!before || !after) return null;
  const isGelu = scene.config.activation.startsWith("gelu");
  return {
    kind: "feedforward",
    title: `${grouped(before.length)} neurons read ${quoted(tokens[token])}`,
    formula: `FFN(x) = ${isGelu ? "GELU" : "f"}(x W_1 + b_1) W_2 + b_2`,
    spoken: "x times W 1 plus b 1, then the activation, then times W 2 plus b 2",
    source: `Vaswani et al. 2017, section 3.3, equation 2${isGelu ? "; GELU(x) = x · Φ(x): Hendrycks and Gimpel 2016, section 2" : ""}`,
    sees: seeNeurons(scene, before, after),
    body: [feedForwardPlots(scene, before, after), neuronRows(scene, before, after)],
    table: () => ({
      columns: ["neuron", "before", "after"],
      rows: largestIndices(after, 50).map((n) => [String(n + 1), decimal(before[n]), decimal(after[n])]),
    }),
  };
}

const countActive = (before) => before.reduce((count, value) => count + (value > 0), 0);

function seeNeurons({ tokens, token }, before, after) {
  const active = countActive(before);
  const most = largestIndex(after);
  return `For ${quoted(tokens[token])}, ${grouped(active)} of ${grouped(before.length)} neurons (${percent(active / before.length)}) ` +
    `have an input above 0 and pass on most of it; the others are almost silent. The strongest is neuron ${grouped(most + 1)} with ${decimal(after[most])}.`;
}

function feedForwardPlots(scene, before, after) {
  const strongest = largestIndices(after, 8);
  return h("div", { class: "stage-cards" },
    stageCard("Each neuron on the activation’s curve", activationPlot(scene, before, after)),
    stageCard("The strongest neurons", barTable(strongest.map((n) => ({
      name: `neuron ${grouped(n + 1)}`, value: after[n], text: decimal(after[n]), under: `from ${decimal(before[n])}`,
    }))), h("h3", { class: "stage-gap" }, "Active neurons of each token"), activeBars(scene)));
}

function activeBars({ trace, layer, tokens, token }) {
  const counts = tokens.map((_, n) => countActive(vectorOf(trace, `${layer}/intermediate`, n)));
  return tokenBars(tokens, token, counts, grouped);
}

// The curve with a point per neuron, and below how many there are of each input.
function activationPlot({ config, token, tokens }, before, after) {
  const ends = ticksOf(Math.min(-4, ...before), Math.max(2, ...before), 6);
  const step = ends[1] - ends[0];
  const [from, to] = [Math.min(ends[0], -4) - (ends[0] > Math.min(...before) ? step : 0), ends.at(-1) + (ends.at(-1) < Math.max(...before) ? step : 0)];
  const ticks = ticksOf(from, to, 6);
  const [width, height, low] = [plotWidth(2, 640), 250, 70];
  const x = scaleOf(from, to, 40, width - 12);
  const highest = Math.max(1, ...after);
  const y = scaleOf(Math.min(-0.3, ...after), highest, height, 12);
  const curve = ACTIVATION_CURVES[config.activation];
  const bins = binsOf(before, from, to, 72);
  const tallest = Math.max(...bins);
  const bar = (x(to) - x(from)) / bins.length;
  const base = height + 24 + low;
  return s("svg", { class: "stage-plot", width, height: base + 40, role: "img",
    "aria-label": `${grouped(before.length)} neurons of ${tokens[token].text} by their input, with a histogram` },
  s("rect", { class: "plot-active", x: x(0), y: 12, width: x(to) - x(0), height: base - 12 }),
  s("line", { class: "base", x1: x(from), x2: x(to), y1: y(0), y2: y(0) }),
  s("line", { class: "base", x1: x(0), x2: x(0), y1: 12, y2: base }),
  verticalAxis(40, y, ticksOf(0, highest, 4)),
  curve ? s("path", { class: "plot-curve", d: curvePath(curvePoints(curve, from, to, highest), x, y) }) : null,
  s("path", { class: "plot-points", d: pointsPath(before, after, x, y) }),
  Array.from(bins, (count, n) => s("rect", { class: from + ((n + 0.5) * (to - from)) / bins.length > 0 ? "bar-plus" : "bar-silent",
    x: x(from) + n * bar + 0.5, width: bar - 1, y: base - (count / tallest) * low, height: (count / tallest) * low })),
  horizontalAxis(x, base, ticks, "input of the activation"),
  s("text", { class: "dim", x: x(from) + 6, y: 26 }, "output"),
  s("text", { class: "dim", x: x(from) + 6, y: base - low + 12 }, "how many neurons"));
}

const curvePoints = (curve, from, to, highest) => Array.from({ length: 161 }, (_, n) => from + ((to - from) * n) / 160)
  .map((x) => [x, curve(x)]).filter(([, y]) => y <= highest);

// The vector through the layer: H numbers, F before and after the activation, H again.
function neuronRows({ trace, layer, token}, before, after) {
  const output = vectorOf(trace, layer, token);
  const arithmetic = h("p", { class: "arithmetic", role: "status" });
  const rows = heatRows([{ name: "x W₁ + b₁", values: before }, { sign: "↓", name: "activated", values: after }], {
    title: "Neuron", memory: "neuron", onPick: (n) => {
      const share = before[n] ? after[n] / before[n] : 0;
      arithmetic.replaceChildren(h("span", { class: "dim" }, `Neuron ${grouped(n + 1)}: `),
        mathOf(`${decimal(before[n])} · ${bracketed(decimal(share))} = ${decimal(after[n])}`),
        h("span", { class: "dim" }, ` of its input it passes on ${percentSigned(share)}`));
    },
  });
  const result = output ? heatRows([{ sign: "↓", name: "output", values: output }], {}) : null;
  return stageCard(`${grouped(before.length)} neurons, then ${output ? grouped(output.length) : "H"} numbers again`, rows, arithmetic, result);
}
