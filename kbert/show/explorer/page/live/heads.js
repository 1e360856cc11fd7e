// What the checkpoint's heads make of the last hidden state.

const CANDIDATES = 10;
const LONGEST_ANSWER = 30;  // tokens

// The matrices of the heads that the checkpoint has.
function prepareHeads(bert, live) {
  const { weights, products } = bert;
  const layers = ["NSP-Dense", "NSP", "MLM-Dense", "Classifier", "TokenClassifier", "Span"];
  const present = layers.filter((layer) => weights.has(`${layer}/kernel`));
  const heads = Object.fromEntries(present.map((layer) => [layer, bert.matrix(layer)]));
  if (heads["MLM-Dense"] && weights.has("MLM-Sim/bias")) {
    const [outputs, inputs] = weights.shapeOf("Embedding-Token/embeddings");
    const table = weights.read("Embedding-Token/embeddings");
    heads.mlmNorm = bert.norm("MLM-Norm");
    heads.vocabulary = prepareKernel(products, table, outputs, inputs, weights.read("MLM-Sim/bias"));
  }
  const dense = live.pooling?.dense ?? [];
  heads.dense = dense.map((activation, index) => ({ activation, matrix: bert.matrix(`Sentence-Dense-${index + 1}`) }));
  return heads;
}

// The heads' outputs; their tensors join the others.
function computeOutputs(model, tokens, tensors, request) {
  const { bert, heads, live } = model;
  const last = tensors.get(`${nameFeedForward(bert.config.L)}-Norm`).data;
  const run = { ...model, products: bert.products, tokens, tensors, length: tokens.length, last, request, keep: makeKeeper(tensors) };
  const outputs = {};
  const pooled = heads["NSP-Dense"] ? applyPooler(run) : null;
  if (live.pooling && (pooled || !live.pooling.poolings.includes("pooler"))) outputs.vector = makeVector(run, pooled);
  if (heads.vocabulary) outputs.mlm = fillMasks(run);
  if (heads.NSP && pooled) outputs.nsp = { isNext: softmax(applyHead(run, "NSP", pooled, []), 2)[0] };
  if (heads.Classifier && pooled) {
    const logits = applyHead(run, "Classifier", pooled, []);
    if (live.labels.length) outputs.classes = rankLabels(live, logits, live.labelFunction);
  }
  if (heads.TokenClassifier) outputs.tags = tagTokens(run);
  if (heads.Span) {
    const both = applyHead(run, "Span", last, [tokens.length]);
    const [start, end] = [0, 1].map((which) => both.filter((_, place) => place % 2 === which));
    run.keep("Span-Start", [tokens.length], start);
    run.keep("Span-End", [tokens.length], end);
    if (request.pair) outputs.answer = findAnswer(run, start, end);
  }
  return outputs;
}

function applyPooler({ bert, products, heads, keep, last }) {
  const { H } = bert.config;
  const first = keep("Extract", [H], last.slice(0, H));
  return keep("NSP-Dense", [H], activate(project(products, first, 1, heads["NSP-Dense"]), "tanh"));
}

// The logits of a head, of one vector or of every token's: `shape` is [] or [tokens].
function applyHead({ products, heads, keep }, name, x, shape) {
  return keep(name, [...shape, heads[name].outputs], project(products, x, shape[0] ?? 1, heads[name]));
}

// Every label with its probability (a regression's number), the highest first.
function rankLabels({ labels }, logits, kind) {
  const probs = kind === "softmax" ? softmax(logits, logits.length) : activate(logits, kind);
  return labels.map((label, index) => ({ label, prob: probs[index] })).sort((a, b) => b.prob - a.prob);
}

function tagTokens(run) {
  const logits = applyHead(run, "TokenClassifier", run.last, [run.length]);
  const count = logits.length / run.length;
  return run.tokens.map((_, index) => rankLabels(run.live, logits.slice(index * count, (index + 1) * count), "softmax"));
}

// The best span of the second text: the largest sum of two logits.
function findAnswer({ tokens, request }, start, end) {
  const places = [...tokens.keys()].slice(0, -1).filter((place) => tokens[place].segment);
  if (!places.length) return { text: "", start: 0, end: 0, prob: 0 };
  const [starts, ends] = [start, end].map((logits) => Float32Array.from(places, (place) => logits[place]));
  let [first, last] = [0, 0];
  starts.forEach((logit, from) => {
    ends.subarray(from, from + LONGEST_ANSWER).forEach((other, more) => {
      if (logit + other > starts[first] + ends[last]) [first, last] = [from, from + more];
    });
  });
  const span = { start: tokens[places[first]].start, end: tokens[places[last]].end };
  const prob = softmax(starts, starts.length)[first] * softmax(ends, ends.length)[last];
  return { text: request.pair.slice(span.start, span.end), ...span, prob };
}

// Ten candidates at each [MASK] and each position that is asked for, of the last block and of every block.
function fillMasks(run) {
  const { tokens, live, request } = run;
  applyMlmHead(run, run.last, run.length, run.keep);
  const isAsked = (position) => tokens[position].id === live.tokenizer.maskId || request.positions.includes(position);
  return [...tokens.keys()].filter(isAsked).map((position) => {
    const blocks = predictFromBlocks(run, position);
    return { position, candidates: blocks[blocks.length - 1], blocks };
  });
}

// The MLM head's last hidden layer; logits are computed where they are asked for.
function applyMlmHead({ bert: { config }, products, heads }, states, rows, keep) {
  const dense = activate(project(products, states, rows, heads["MLM-Dense"]), config.activation);
  const normed = normalizeLayer(dense, heads.mlmNorm, config);
  keep?.("MLM-Dense", [rows, config.H], dense);
  keep?.("MLM-Norm", [rows, config.H], normed);
  return normed;
}

function predictFromBlocks(run, position) {
  const { bert, products, heads, tensors, tokenizer } = run;
  const { L, H, T } = bert.config;
  const states = new Float32Array(L * H);
  for (let block = 1; block <= L; block += 1) {
    const { data } = tensors.get(`${nameFeedForward(block)}-Norm`);
    states.set(data.subarray(position * H, (position + 1) * H), (block - 1) * H);
  }
  const probs = softmax(project(products, applyMlmHead(run, states, L), L, heads.vocabulary), T);
  const known = Math.min(T, tokenizer.tokens.length);  // outputs beyond the vocabulary have no token
  return Array.from({ length: L }, (_, index) => findLikeliest(probs.subarray(index * T, index * T + known), tokenizer.tokens));
}

function findLikeliest(probs, tokens) {
  const best = [];
  probs.forEach((prob, id) => {
    if (best.length === CANDIDATES && prob <= best[CANDIDATES - 1].prob) return;
    const place = best.findIndex((candidate) => candidate.prob < prob);
    best.splice(place < 0 ? best.length : place, 0, { token: tokens[id], prob });
    best.length = Math.min(best.length, CANDIDATES);
  });
  return best;
}

// The sentence's vector, as sentence-transformers has it: pooled, through dense layers, normalized.
function makeVector({ bert, products, heads, live: { pooling }, last }, pooled) {
  const { H } = bert.config;
  const poolings = pooling.poolings.map((how) => (how === "pooler" ? pooled : poolTokens(how, last, H, pooling.skip)));
  let vector = Float32Array.from(poolings.flatMap((part) => [...part]));
  for (const { matrix, activation } of heads.dense) vector = activate(project(products, vector, 1, matrix), activation);
  if (pooling.normalize) {
    const norm = Math.max(Math.hypot(...vector), 1e-12);
    vector = vector.map((number) => number / norm);
  }
  return pooling.dimensions ? vector.slice(0, pooling.dimensions) : vector;
}

// One vector of the tokens' hidden states, without the `skip` tokens of a prompt.
function poolTokens(how, hidden, width, skip) {
  const length = hidden.length / width;
  if (how === "cls") return hidden.subarray(skip * width, (skip + 1) * width);
  if (how === "lasttoken") return hidden.subarray((length - 1) * width);
  const vector = new Float64Array(width).fill(how === "max" ? -Infinity : 0);
  let total = 0;
  for (let token = skip; token < length; token += 1) {
    const weight = how === "weightedmean" ? token + 1 : 1;
    total += weight;
    for (let i = 0; i < width; i += 1) {
      const number = hidden[token * width + i];
      vector[i] = how === "max" ? Math.max(vector[i], number) : vector[i] + weight * number;
    }
  }
  if (how === "max") return vector;
  return vector.map((sum) => sum / (how === "mean_sqrt_len_tokens" ? Math.sqrt(total) : total));
}
