// What comes out: words for masked positions, the next sentence, labels, the sentence's vector.

function drawWords(scene) {
  const { trace, tokens, token } = scene;
  const predictions = trace.outputs.mlm || [];
  const chosen = predictions.find(({ position }) => position === token) ||
    predictions.find(({ position }) => tokens[position].text === "[MASK]") || predictions[0];
  if (!chosen) return askForMask();
  const [first, second] = chosen.candidates;
  const margin = second ? Math.log(first.prob / second.prob) : 0;
  return {
    kind: "mlm",
    title: `Which token stands at position ${chosen.position + 1}?`,
    formula: "p = softmax(f(h) E^T + c)",
    spoken: "p is the softmax of f of h times E transposed plus c",
    source: "f is a dense layer, the activation and LayerNorm; E has all token vectors. Devlin et al. 2019, section 3.1, task 1",
    sees: `The model reads ${quoted(tokens[chosen.position])} and finds “${first.token}” most likely, with ${percent(first.prob)}` +
      `${second ? `; its logit is ${decimal(margin)} above that of “${second.token}”` : ""}.`,
    body: [h("div", { class: "stage-cards" },
      stageCard("Ten candidates", barTable(chosen.candidates.map((candidate, n) => ({
        name: candidate.token, value: candidate.prob, text: percent(candidate.prob), isChosen: !n,
        under: n ? `logit ${decimal(Math.log(candidate.prob / first.prob))}` : "logit: the largest, 0",
      })), 1)),
      chosen.blocks ? stageCard("How the answer forms, block by block", wordsByBlock(chosen)) : null)],
    table: () => ({ columns: ["token", "probability"], rows: chosen.candidates.map(({ token: word, prob }) => [word, percent(prob)]) }),
  };
}

const askForMask = () => ({
  kind: "mlm", title: "Which word is missing?", source: "Devlin et al. 2019, section 3.1, task 1", withoutToken: true, body: [],
  sees: "Write [MASK] in place of a word of the sentence: ten candidates for it stand here then.",
});

// A row per block, from the last at the top down: what the head would say to its hidden states.
function wordsByBlock({ blocks, candidates }) {
  const answer = candidates[0].token;
  const rows = blocks.map((words, n) => h("tr", {}, h("th", { scope: "row" }, `block ${n + 1}`), words.slice(0, 4).map(({ token, prob }) =>
    h("td", { class: token === answer ? "cell-chosen" : null, style: `--part:${(100 * Math.sqrt(prob)).toFixed(0)}%` }, h("b", {}, token), " ", h("span", {}, percent(prob))))));
  return h("div", { class: "stage-rows", tabindex: 0, role: "region", "aria-label": "Candidates by block" },
    h("table", { class: "stage-table block-table" }, h("tbody", {}, rows.reverse())),
    h("p", { class: "dim" }, `The head reads each block’s output as if it were the last; “${answer}” is framed.`));
}

// Logits as bars, and their softmax.
function logitCards(names, logits, probs) {
  const chosen = largestIndex(probs);
  const isSoftmax = (DATA.live.labelFunction ?? "softmax") === "softmax";
  return h("div", { class: "stage-cards" },
    logits ? stageCard("Logits", barTable(names.map((name, n) => ({ name, value: logits[n], text: decimal(logits[n]), isChosen: n === chosen })))) : null,
    stageCard(isSoftmax ? "After the softmax" : "After the sigmoid", barTable(names.map((name, n) => ({ name, value: probs[n], text: percent(probs[n]), isChosen: n === chosen })), 1),
      logits && isSoftmax ? softmaxOf(logits, probs, chosen) : null));
}

function softmaxOf(logits, probs, chosen) {
  const largest = Math.max(...logits);
  const powers = Array.from(logits, (logit) => Math.exp(logit - largest));
  const total = powers.reduce((all, power) => all + power, 0);
  return h("div", { class: "arithmetic" }, mathOf(
    `frac{e^{${decimal(logits[chosen])} − ${bracketed(decimal(largest))}}}{Σ} = frac{${decimal(powers[chosen])}}{${decimal(total)}} = ${percent(probs[chosen])}`));
}

function drawNextSentence({ trace }) {
  const isNext = trace.outputs.nsp?.isNext;
  if (isNext === undefined) return null;
  const logits = trace.tensors.get("NSP")?.data;
  return {
    kind: "head",
    title: "Does the second sentence follow the first?",
    formula: "p = softmax(tanh(h_{CLS} W + b) V + c)",
    spoken: "p is the softmax of two logits, computed from the pooled vector of CLS",
    source: "Devlin et al. 2019, section 3.1, task 2; appendix A.1",
    sees: `The model gives ${percent(isNext)} to “it follows” and ${percent(1 - isNext)} to “it does not”` +
      `${trace.request.pair ? "." : ". There is no second sentence: type one to make this a question."}`,
    withoutToken: true,
    body: [logitCards(["it follows", "it does not"], logits, [isNext, 1 - isNext])],
  };
}

function drawLabels({ trace, layer, token, tokens }) {
  const { classes, tags, answer } = trace.outputs;
  const labels = layer.startsWith("Token") ? tags?.[token] : layer === "Classifier" ? classes : null;
  if (labels) {
    const best = labels[largestIndex(labels.map(({ prob }) => prob))];
    const tensor = trace.tensors.get(layer);
    const inOrder = !tensor ? null : layer === "Classifier" ? tensor.data : vectorOf(trace, layer, token);
    const logits = inOrder && labels.map(({ label }) => inOrder[DATA.live.labels.indexOf(label)]);  // the highest first
    const whose = layer === "Classifier" ? "the text" : quoted(tokens[token]);
    return {
      kind: "head", title: layer === "Classifier" ? "A label for the text" : `A label for ${quoted(tokens[token])}`,
      formula: `p = ${DATA.live.labelFunction ?? "softmax"}(h W^T + b)`, source: `Devlin et al. 2019, section ${layer === "Classifier" ? "4.1" : "5.3"}`,
      sees: `The most likely label of ${whose} is “${best.label}” with ${percent(best.prob)}.`,
      withoutToken: layer === "Classifier",
      body: [logitCards(labels.map(({ label }) => label), logits?.length === labels.length ? logits : null, labels.map(({ prob }) => prob))],
    };
  }
  return answer && layer.startsWith("Span") ? drawAnswer(trace, answer) : null;
}

function drawAnswer(trace, answer) {
  const rows = (name) => {
    const logits = trace.tensors.get(name)?.data;
    if (!logits) return null;
    return stageCard(name === "Span-Start" ? "Where it begins" : "Where it ends", barTable(largestIndices(logits, 8).map((n) => ({
      name: trace.tokens[n].text, value: logits[n], text: decimal(logits[n]), under: `position ${n + 1}` }))));
  };
  return {
    kind: "head", title: "The answer in the text", formula: "P_i = frac{e^{S · T_i}}{Σ_j e^{S · T_j}}",
    source: "Devlin et al. 2019, section 4.2",
    sees: `The answer is “${answer.text}” with ${percent(answer.prob)}.`, withoutToken: true,
    body: [h("div", { class: "stage-cards" }, rows("Span-Start"), rows("Span-End"))],
  };
}

const POOLINGS = {
  mean: "the mean of all tokens’ vectors", cls: "the vector of [CLS]", max: "the largest number of each dimension over all tokens",
  pooler: "the pooler’s output", lasttoken: "the vector of the last token", weightedmean: "a mean that weighs later tokens more",
  mean_sqrt_len_tokens: "the sum over the tokens, divided by √S",
};

// The vector of the whole sentence, which is made of the last block's output.
function vectorCard({ trace, tokens }) {
  const { vector } = trace.outputs;
  const { poolings = [], dense = [], normalize } = DATA.live.pooling || {};
  const how = [poolings.map((name) => POOLINGS[name] || name).join(" beside "), dense.length ? plural(dense.length, "dense layer") : "",
    normalize ? "divided by its length" : ""].filter(Boolean).join(", ");
  return stageCard("One vector for the sentence", heatRows([{ name: "vector", values: vector }], { key: "vector" }),
    h("p", { class: "dim" }, `${grouped(vector.length)} numbers for all ${tokens.length} tokens: ${how}. Its length is ${decimal(lengthOf(vector))}. ` +
      "Reimers and Gurevych 2019, section 3."));
}
