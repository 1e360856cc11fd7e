// The residual connection: a sublayer's output is added to its input.

function drawResidual(scene) {
  const { trace, layer, token, tokens, block } = scene;
  const isAttention = layer.includes("MultiHeadSelfAttention");
  const inputName = isAttention ? (block > 1 ? `Encoder-${block - 1}-FeedForward-Norm` : "Embedding-Norm")
    : `Encoder-${block}-MultiHeadSelfAttention-Norm`;
  const input = vectorOf(trace, inputName, token);
  const sublayer = vectorOf(trace, layer.replace(/-Add$/, ""), token);
  const output = vectorOf(trace, layer, token);
  if (!input || !sublayer || !output) return null;
  const isOff = (trace.request.off?.residuals || []).includes(layer);
  const view = { ...scene, input, sublayer, output, isOff, noun: isAttention ? "attention" : "feed-forward" };
  return {
    kind: "joint",
    title: `What the ${view.noun} adds to ${quoted(tokens[token])}`,
    formula: isOff ? "y = Sublayer(x)" : "y = x + Sublayer(x)",
    spoken: isOff ? "y is the sublayer of x" : "y is x plus the sublayer of x",
    source: "Vaswani et al. 2017, section 3.1; He et al. 2016, equation 1",
    sees: seeResidual(view),
    body: [sumCard("Number by number", isOff ? { [view.noun]: sublayer } : { input, [view.noun]: sublayer }, "output", output), h("div", { class: "stage-cards" },
      stageCard("The same as arrows, lengths and angles to scale", vectorTriangle(view)),
      stageCard("By how much each token turns", turnBars({ ...view, inputName })))],
    table: vectorTable({ input, [view.noun]: sublayer, output }),
  };
}

const degrees = (angle) => `${angle.toFixed(1)}°`;

function seeResidual({ input, sublayer, output, tokens, token, noun, isOff }) {
  const turned = angleBetween(input, output);
  if (isOff) return `The residual connection is switched off: of ${quoted(tokens[token])} only the sublayer’s output goes on, at ${degrees(turned)} from its input.`;
  return `The sublayer adds a vector of length ${decimal(lengthOf(sublayer))} to one of length ${decimal(lengthOf(input))}: ` +
    `${quoted(tokens[token])} turns by ${degrees(turned)}, and its length becomes ${decimal(lengthOf(output))}.`;
}

// Input, sublayer and sum lie in one plane, which is drawn with the input to the right.
function vectorTriangle({ input, sublayer, output, noun, isOff }) {
  const length = lengthOf(input);
  const along = dotProduct(input, sublayer) / (length || 1);
  const aside = Math.sqrt(Math.max(0, dotProduct(sublayer, sublayer) - along ** 2));
  const start = isOff ? [0, 0] : [length, 0];
  const end = [start[0] + along, start[1] + aside];
  const points = [[0, 0], [length, 0], end];
  const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
  const [width, height, side, foot] = [plotWidth(2, 560), 250, 20, 56];
  const [least, most] = [Math.min(...xs), Math.max(...xs)];
  const scale = Math.min((width - 2 * side) / (most - least || 1), (height - foot - side) / (Math.max(...ys) || 1));
  const left = (width - scale * (most + least)) / 2;
  const at = ([a, b]) => [left + a * scale, height - foot - b * scale];
  return s("svg", { class: "stage-plot", width, height, role: "img",
    "aria-label": `input of length ${decimal(length)}, ${noun} of length ${decimal(lengthOf(sublayer))} at ${degrees(angleBetween(input, sublayer))} to it, output of length ${decimal(lengthOf(output))}` },
  drawVector(at([0, 0]), at([length, 0]), "arrow-in"), drawVector(at(start), at(end), "arrow-add"), isOff ? null : drawVector(at([0, 0]), at(end), "arrow-out"),
  arrowKeys([["arrow-in", `input ${decimal(length)}`], ["arrow-add", `${noun} ${decimal(lengthOf(sublayer))}`],
    ...(isOff ? [] : [["arrow-out", `output ${decimal(lengthOf(output))}`]])], height - 24),
  s("text", { class: "dim", x: 0, y: height - 4 }, `turned by ${degrees(angleBetween(input, output))}; the two parts are ${degrees(angleBetween(input, sublayer))} apart`));
}

function drawVector([x1, y1], [x2, y2], kind) {
  const angle = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
  return s("g", { class: kind }, s("line", { x1, y1, x2, y2 }),
    s("path", { d: "M0 0 -10 -4.5 -10 4.5Z", transform: `translate(${x2} ${y2}) rotate(${angle})` }));
}

// The arrows' names in their colours, in one line.
const arrowKeys = (keys, y) => s("text", { x: 0, y },
  keys.map(([kind, text], n) => s("tspan", { class: kind, dx: n ? 14 : 0 }, text)));

function turnBars({ trace, tokens, token, inputName, layer }) {
  const angles = tokens.map((_, n) => angleBetween(vectorOf(trace, inputName, n), vectorOf(trace, layer, n)));
  return tokenBars(tokens, token, angles, degrees);
}
