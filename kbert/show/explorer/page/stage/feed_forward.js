// The feed-forward layer: the activation's curve with the token's points on it.

function drawFeedForward({ trace, layer, token, tokens, config }) {
  const before = vectorOf(trace, `${layer}/intermediate`, token);
  const after = vectorOf(trace, `${layer}/activation`, token);
  if (!before || !after) return null;
  const isGelu = config.activation.startsWith("gelu");
  const active = before.reduce((count, value) => count + (value > 0), 0);
  const strongest = largestIndex(after);
  const gelu = "; GELU(x) = x · Φ(x): Hendrycks and Gimpel 2016, section 2";
  return {
    title: `${grouped(before.length)} neurons read ${quoted(tokens[token])}`,
    formula: `FFN(x) = ${isGelu ? "GELU" : "f"}(x W_1 + b_1) W_2 + b_2`,
    source: `Vaswani et al. 2017, section 3.3, equation 2${isGelu ? gelu : ""}`,
    sees: `For ${quoted(tokens[token])}, ${grouped(active)} of ${grouped(before.length)} neurons ` +
      `(${percent(active / before.length)}) have an input above 0 and pass on most of it; the ` +
      `others are almost silent. The strongest is neuron ${grouped(strongest + 1)} with ` +
      `${decimal(after[strongest])}.`,
    body: [h("div.stage-cards",
      stageCard("Each neuron on the activation’s curve",
        activationPlot(trace, layer, before, after)),
      neuronRows(before, after, vectorOf(trace, layer, token)))],
    table: () => ({
      columns: ["neuron", "before", "after"],
      rows: largestIndices(after, 50)
        .map((n) => [String(n + 1), decimal(before[n]), decimal(after[n])]),
    }),
  };
}

const CURVE_STEPS = 160;

// A point per neuron of the token, on the curve through the points of all tokens.
function activationPlot(trace, layer, before, after) {
  const [all, answers] = ["intermediate", "activation"]
    .map((part) => trace.tensors.get(`${layer}/${part}`).data);
  const [from, to] = [Math.min(-4, ...before), Math.max(2, ...before)];
  const curve = [];
  all.forEach((value, n) => {
    const place = Math.round(((value - from) / (to - from)) * CURVE_STEPS);
    if (place >= 0 && place <= CURVE_STEPS) curve[place] = [value, answers[n]];
  });
  const heights = [...after, ...curve.filter(Boolean).map(([, answer]) => answer)];
  const [low, high] = [Math.min(-0.3, ...heights), Math.max(1, ...heights)];
  const x = scaleOf(from, to, 40, PLOT - 8);
  const y = scaleOf(low, high, 220, 12);
  const onCurve = curve.filter(Boolean).map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`);
  const points = Array.from(before, (value, n) =>
    `M${x(value).toFixed(1)} ${y(after[n]).toFixed(1)}h.01`);
  return plotOf(262, `${before.length} neurons by their input and output`,
    s("path.plot-zero", { d: `M40 ${y(0)}H${PLOT - 8}M${x(0)} 12V220` }),
    s("path.plot-curve", { d: `M${onCurve.join("L")}` }),
    s("path.plot-points", { d: points.join("") }),
    horizontalAxis(x, 224, ticksOf(from, to), "input of the activation"),
    verticalAxis(36, y, ticksOf(0, high)));
}

function neuronRows(before, after, output) {
  const rows = [{ name: "x W₁ + b₁", values: before }, { name: "↓ activated", values: after }];
  return arithmeticCard("One neuron, and what comes out of all", rows, (n) => {
    const factor = before[n] ? after[n] / before[n] : 0;
    return [`${decimal(before[n])} · ${bracketed(decimal(factor))} = ${decimal(after[n])}`];
  }, { memory: "neuron" }, heatRows([{ name: "↓ output", values: output }]));
}
