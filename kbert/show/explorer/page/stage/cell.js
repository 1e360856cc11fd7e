// One cell of an attention map, with its numbers written out.

function cellArithmetic(view) {
  const { query, scores, value } = view.parts;
  const cards = [query && scoreCard, scores && softmaxCard, value && contextCard];
  return cards.filter(Boolean).map((draw) => draw(view));
}

function scoreCard({ parts, head, row, column, tokens, width, scores }) {
  const query = headVector(parts.query, row, head);
  const key = headVector(parts.key, column, head);
  const rows = heatRows([
    { name: `q ${tokens[row].text}`, values: query },
    { name: `× k ${tokens[column].text}`, values: key },
    { name: "= q × k", values: query.map((value, n) => value * key[n]) },
  ], { memory: "headDimension", key: "product" });
  const total = decimal(dotProduct(query, key));
  const score = decimal(scores[row * tokens.length + column]);
  return stageCard("1 The score: do query and key match?", rows,
    h("div.arithmetic",
      mathOf(`frac{q · k}{sqrt{d}} = frac{${total}}{sqrt{${width}}} = ${score}`)));
}

function softmaxCard({ row, column, tokens, scores, probs, trace }) {
  const size = tokens.length;
  const temperature = trace.request.temperature || 1;
  const isSeen = (n) => probs[row * size + n] > 0;  // padding is not
  const ofRow = Array.from({ length: size }, (_, n) => scores[row * size + n] / temperature);
  const largest = Math.max(...ofRow.filter((_, n) => isSeen(n)));
  const powers = ofRow.map((score, n) => (isSeen(n) ? Math.exp(score - largest) : 0));
  const total = powers.reduce((all, power) => all + power, 0);
  const exponent = `${decimal(ofRow[column])} − ${bracketed(decimal(largest))}`;
  const fraction = `frac{${decimal(powers[column])}}{${decimal(total)}}`;
  return stageCard("2 Softmax: scores become shares",
    h("div.arithmetic",
      mathOf(`frac{e^{${exponent}}}{Σ} = ${fraction} = ${percent(probs[row * size + column])}`)),
    h("p.dim", `Σ adds up all ${size} tokens. The row’s largest score, ` +
      `${decimal(largest)}, is subtracted first: the shares stay the same.` +
      (temperature === 1 ? "" : ` The scores are divided by the temperature, ${temperature}.`)));
}

function contextCard(view) {
  const { parts, head, row, column, tokens, isOff } = view;
  const context = headVector(parts.context, row, head);
  const terms = h("div", {});
  const rows = heatRows([
    { name: `v ${tokens[column].text}`, values: headVector(parts.value, column, head) },
    { name: "Σ context", values: context },
  ], { memory: "headDimension", key: "context", onPick: (n) => terms.replaceChildren(isOff
    ? "This head is switched off: its context is set to 0." : contextTerms(view, n, context[n])) });
  return stageCard("3 Context: values, mixed by their shares", rows, terms);
}

function contextTerms({ parts, head, row, column, tokens, probs }, dimension, total) {
  const prob = (n) => probs[row * tokens.length + n];
  const value = (n) => headVector(parts.value, n, head)[dimension];
  const terms = tokens.map((_, n) => prob(n) * value(n));
  const order = largestIndices(terms.map((term, n) => (n === column ? 1e9 : Math.abs(term))), 4);
  const rest = total - order.reduce((all, n) => all + terms[n], 0);
  const others = tokens.length - order.length;
  const line = (name, product, term) => [name, h("td.dim", product), decimal(term)];
  return tableOf({ class: "stage-terms" }, [], [
    ...order.map((n) =>
      line(tokens[n].text, `${percent(prob(n))} · ${bracketed(decimal(value(n)))}`, terms[n])),
    ...(others > 0 ? [line(`${others} more`, "", rest)] : []),
    line("Σ prob · v", `dimension ${dimension + 1}`, total),
  ]);
}
