// One cell of an attention map, with its numbers written out.

function cellArithmetic(view) {
  return [scoreCard(view), softmaxCard(view), contextCard(view)];
}

// q · k, dimension by dimension, divided by √d.
function scoreCard({ parts, head, row, column, tokens, width, scores }) {
  const query = headVector(parts.query, row, head);
  const key = headVector(parts.key, column, head);
  const product = query.map((value, n) => value * key[n]);
  const score = scores[row * tokens.length + column];
  const strips = heatRows([
    { name: `q ${tokens[row].text}`, values: query },
    { sign: "×", name: `k ${tokens[column].text}`, values: key },
    { sign: "=", name: "q × k", values: product },
  ], { memory: "headDimension", key: "product" });
  const total = dotProduct(query, key);
  return stageCard("1 The score: do query and key match?", strips, h("div", { class: "arithmetic" },
    mathOf(`frac{q · k}{sqrt{d}} = frac{${decimal(total)}}{sqrt{${width}}} = ${decimal(score)}`,
      `q times k over the root of ${width} is ${decimal(total)} over ${decimal(Math.sqrt(width))}, ${decimal(score)}`)),
  h("p", { class: "dim" }, `The ${width} products add up to ${decimal(total)}.`));
}

// The row's scores as bars, and their softmax.
function softmaxCard({ row, column, tokens, scores, probs, shown, trace }) {
  const size = tokens.length;
  const ofRow = Array.from({ length: size }, (_, n) => scores[row * size + n] / (trace.request.temperature || 1));
  const isSeen = (n) => probs[row * size + n] > 0;  // padding is not
  const largest = Math.max(...ofRow.filter((_, n) => isSeen(n)));
  const powers = ofRow.map((score, n) => (isSeen(n) ? Math.exp(score - largest) : 0));
  const total = powers.reduce((all, power) => all + power, 0);
  const prob = probs[row * size + column];
  const [score, most] = [decimal(ofRow[column]), bracketed(decimal(largest))];
  return stageCard("2 Softmax: scores become shares", softmaxBars({ ofRow, probs, row, column, tokens, shown }),
    h("div", { class: "arithmetic" }, mathOf(
      `frac{e^{${score} − ${most}}}{Σ} = frac{${decimal(powers[column])}}{${decimal(total)}} = ${percent(prob)}`,
      `e to the power of ${score} minus ${most}, over the sum over all tokens: ${decimal(powers[column])} over ${decimal(total)}, ${percent(prob)}`)),
    h("p", { class: "dim" }, `Σ adds up all ${size} tokens. The row’s largest score, ${decimal(largest)}, is subtracted first: ` +
      `the shares stay the same.${temperatureText(trace)}`));
}

const temperatureText = ({ request }) =>
  ((request.temperature || 1) === 1 ? "" : ` The scores are divided by the temperature, ${request.temperature}.`);

// A column per token: its score above, its share below.
function softmaxBars({ ofRow, probs, row, column, tokens, shown }) {
  const [width, upper, lower] = [plotWidth(3, 460), 46, 56];
  const each = width / shown.length;
  const least = Math.min(...shown.map((n) => ofRow[n]), 0);
  const scoreAt = scaleOf(least, Math.max(...shown.map((n) => ofRow[n]), 0), upper, 4);
  const bars = shown.map((n, place) => {
    const prob = probs[row * tokens.length + n];
    const [x, bar] = [place * each + each * 0.12, each * 0.76];
    const [top, zero] = [scoreAt(ofRow[n]), scoreAt(0)];
    return s("g", { class: n === column ? "bar-chosen" : null },
      s("rect", { class: ofRow[n] < 0 ? "bar-minus" : "bar-plus", x, width: bar, y: Math.min(top, zero), height: Math.max(0.5, Math.abs(top - zero)) }),
      s("rect", { class: "bar-prob", x, width: bar, y: upper + 22 + lower * (1 - prob), height: Math.max(0.5, lower * prob) }));
  });
  return s("svg", { class: "softmax-bars", width, height: upper + lower + 40, "aria-hidden": "true" }, bars,
    s("line", { class: "base", x1: 0, x2: width, y1: scoreAt(0), y2: scoreAt(0) }),
    s("line", { class: "base", x1: 0, x2: width, y1: upper + 22 + lower, y2: upper + 22 + lower }),
    s("text", { x: (shown.indexOf(column) + 0.5) * each, y: upper + lower + 36, "text-anchor": anchorOf(shown.indexOf(column) / shown.length) }, tokens[column].text),
    s("text", { class: "dim", x: 0, y: upper + 16 }, "scores ↑   shares ↓"));
}

const anchorOf = (part) => (part < 0.15 ? "start" : part > 0.85 ? "end" : "middle");

// The values, weighted by the shares and added up; for one dimension with its largest terms.
function contextCard({ parts, head, row, column, tokens, probs, isOff }) {
  const context = headVector(parts.context, row, head);
  const terms = h("div", {});
  const strips = heatRows([
    { name: `v ${tokens[column].text}`, values: headVector(parts.value, column, head) },
    { sign: "Σ", name: "context", values: context },
  ], { memory: "headDimension", key: "context", onPick: (n) => {
    terms.replaceChildren(isOff ? "This head is switched off: its context is set to 0." : contextTerms({ parts, head, row, column, tokens, probs }, n, context[n]));
  } });
  return stageCard("3 Context: values, mixed by their shares", strips, terms);
}

function contextTerms({ parts, head, row, column, tokens, probs }, dimension, total) {
  const prob = (n) => probs[row * tokens.length + n];
  const value = (n) => headVector(parts.value, n, head)[dimension];
  const order = largestIndices(tokens.map((_, n) => Math.abs(prob(n) * value(n)) + (n === column ? 1e9 : 0)), 4);
  const rest = total - order.reduce((all, n) => all + prob(n) * value(n), 0);
  const line = (name, left, right, isChosen) => h("tr", { class: isChosen ? "row-chosen" : null },
    h("th", { scope: "row" }, name), h("td", { class: "dim" }, left), h("td", {}, right));
  const others = tokens.length - order.length;
  return h("table", { class: "stage-terms", "aria-label": `prob times value, dimension ${dimension + 1}` }, h("tbody", {},
    order.map((n) => line(tokens[n].text, `${percent(prob(n))} · ${bracketed(decimal(value(n)))}`, decimal(prob(n) * value(n)), n === column)),
    others > 0 ? line(`${plural(others, "more token")}`, "", decimal(rest)) : null,
    line("Σ prob · v", `dimension ${dimension + 1}`, decimal(total), true)));
}
