// What the checkpoint's heads make of the last hidden state.

const CANDIDATES = 10;

// The matrices of the heads that the checkpoint has.
function prepareHeads(bert, live) {
  const layers = ["NSP-Dense", "NSP", "MLM-Dense", "Classifier", "TokenClassifier", "Span"];
  const present = layers.filter((layer) => bert.weights.has(`${layer}/kernel`));
  const heads = Object.fromEntries(present.map((layer) => [layer, bert.matrix(layer)]));
  if (heads["MLM-Dense"] && bert.weights.has("MLM-Sim/bias")) {
    heads.mlmNorm = bert.norm("MLM-Norm");
    const kernel = bert.weights.read("Embedding-Token/embeddings");
    const [outputs, inputs] = bert.weights.shapeOf("Embedding-Token/embeddings");
    heads.vocabulary = bert.products.prepare({ kernel, bias: bert.weights.read("MLM-Sim/bias"), inputs, outputs });
  }
  heads.dense = (live.pooling?.dense || []).map((activation, index) =>
    ({ activation, ...bert.matrix(`Sentence-Dense-${index + 1}`), matrix: bert.matrix(`Sentence-Dense-${index + 1}`) }));
  return heads;
}

// The heads' outputs; their tensors join the others.
function computeOutputs(model, tokens, tensors, request) {
  const { bert, heads, live } = model;
  const { L } = bert.config;
  const length = tokens.length;
  const last = tensors.get(L ? `Encoder-${L}-FeedForward-Norm` : "Embedding-Norm").data;
  const run = {
    ...model, tokens, tensors, length, last, request,
    keep: (name, shape, data) => {
      tensors.set(name, { shape, data });
      return data;
    },
  };
  const outputs = {};
  const pooled = heads["NSP-Dense"] ? applyPooler(run) : null;
  if (live.pooling) outputs.vector = makeVector(run, pooled);
  if (heads.vocabulary) outputs.mlm = fillMasks(run);
  if (heads.NSP && pooled) outputs.nsp = { isNext: compareSentences(run, pooled) };
  if (heads.Classifier && pooled) outputs.classes = classify(run, pooled);
  if (heads.TokenClassifier) outputs.tags = tag(run);
  if (heads.Span) outputs.answer = answer(run);
  return outputs;
}

function applyPooler({ bert, heads, keep, last }) {
  const { H } = bert.config;
  const first = keep("Extract", [H], last.slice(0, H));
  return keep("NSP-Dense", [H], activate(bert.products.multiply(first, 1, heads["NSP-Dense"]), "tanh"));
}

function compareSentences({ bert, heads, keep }, pooled) {
  const logits = keep("NSP", [2], bert.products.multiply(pooled, 1, heads.NSP));
  return softmax(logits, 2)[0];
}

// Logits as probabilities, by the checkpoint's kind of labels.
function toProbs(logits, width, kind) {
  return kind === "softmax" ? softmax(logits, width) : activate(logits, kind);
}

const nameLabels = (live, probs) => Array.from(probs, (prob, index) => ({ label: live.labels[index], prob }));

function classify({ bert, heads, live, keep }, pooled) {
  const logits = keep("Classifier", [live.labels.length], bert.products.multiply(pooled, 1, heads.Classifier));
  return nameLabels(live, toProbs(logits, live.labels.length, live.labelFunction));
}

function tag({ bert, heads, live, keep, last, length }) {
  const count = live.labels.length;
  const logits = keep("TokenClassifier", [length, count], bert.products.multiply(last, length, heads.TokenClassifier));
  const probs = softmax(logits, count);
  return Array.from({ length }, (_, index) => nameLabels(live, probs.subarray(index * count, (index + 1) * count)));
}

// The likeliest span of the second text, or of the only one.
function answer({ bert, heads, keep, last, length, tokens, request }) {
  const both = keep("Span", [length, 2], bert.products.multiply(last, length, heads.Span));
  const start = keep("Span-Start", [length], both.filter((_, place) => place % 2 === 0));
  const end = keep("Span-End", [length], both.filter((_, place) => place % 2 === 1));
  const hasPair = request.pair !== null && request.pair !== undefined;
  const from = hasPair ? tokens.findIndex((token) => token.special && token.start === token.end && token.text !== tokens[0].text) + 1 : 1;
  const startProbs = softmax(start, length);
  const endProbs = softmax(end, length);
  let best = { prob: -1 };
  for (let first = from; first < length - 1; first += 1) {
    for (let final = first; final < Math.min(length - 1, first + 30); final += 1) {
      const prob = startProbs[first] * endProbs[final];
      if (prob > best.prob) best = { prob, start: tokens[first].start, end: tokens[final].end };
    }
  }
  if (best.prob < 0) return { text: "", start: 0, end: 0, prob: 0 };
  const text = hasPair ? request.pair : request.text;
  return { text: text.slice(best.start, best.end), ...best };
}

// Ten candidates at each position, of the last block and of every block.
function fillMasks(run) {
  const { tokens, live, request } = run;
  const maskId = live.tokenizer.maskId;
  const isAsked = (token, position) => token.id === maskId || request.positions?.includes(position);
  const positions = [...tokens.keys()].filter((position) => isAsked(tokens[position], position));
  predictAll(run);
  return positions.map((position) => {
    const blocks = predictFromBlocks(run, position);
    return { position, candidates: blocks[blocks.length - 1], blocks };
  });
}

// The MLM head's own tensors, of all tokens; logits are computed where they are asked for.
function predictAll({ bert, heads, live, keep, last, length }) {
  const { H } = bert.config;
  const dense = keep("MLM-Dense", [length, H], activate(bert.products.multiply(last, length, heads["MLM-Dense"]), live.config.activation));
  keep("MLM-Norm", [length, H], normalizeLayer(dense, heads.mlmNorm, bert.config));
}

function predictFromBlocks({ bert, heads, live, tensors, tokenizer }, position) {
  const { L, H, T } = bert.config;
  const states = new Float32Array(L * H);
  for (let block = 1; block <= L; block += 1) {
    const { data } = tensors.get(`Encoder-${block}-FeedForward-Norm`);
    states.set(data.subarray(position * H, (position + 1) * H), (block - 1) * H);
  }
  const dense = activate(bert.products.multiply(states, L, heads["MLM-Dense"]), live.config.activation);
  const logits = bert.products.multiply(normalizeLayer(dense, heads.mlmNorm, bert.config), L, heads.vocabulary);
  const probs = softmax(logits, T);
  return Array.from({ length: L }, (_, index) => findLikeliest(probs.subarray(index * T, (index + 1) * T), tokenizer.tokens));
}

function findLikeliest(probs, tokens) {
  const best = [];
  probs.forEach((prob, id) => {
    if (best.length === CANDIDATES && prob <= best[CANDIDATES - 1].prob) return;
    const place = best.findIndex((candidate) => candidate.prob < prob);
    best.splice(place < 0 ? best.length : place, 0, { token: tokens[id] ?? `[no_token_${id}]`, prob });
    best.length = Math.min(best.length, CANDIDATES);
  });
  return best;
}

// The sentence's vector, as sentence-transformers has it: pooled, through dense layers, normalized.
function makeVector({ bert, heads, live, last, length }, pooled) {
  const { pooling } = live;
  const skip = pooling.skip || 0;
  const { H } = bert.config;
  let vector = pooling.poolings.flatMap((how) => [...poolTokens(how, last, length, H, skip, pooled)]);
  for (const { matrix, activation } of heads.dense) {
    vector = activate(bert.products.multiply(Float32Array.from(vector), 1, matrix), activation);
  }
  vector = Float32Array.from(vector);
  if (pooling.normalize) vector = scaleToOne(vector);
  return pooling.dimensions ? vector.slice(0, pooling.dimensions) : vector;
}

function scaleToOne(vector) {
  const norm = Math.max(Math.hypot(...vector), 1e-12);
  return vector.map((number) => number / norm);
}

function poolTokens(how, hidden, length, width, skip, pooled) {
  if (how === "pooler") return pooled;
  const weights = Array.from({ length }, (_, index) => weighToken(how, index, length, skip));
  const vector = new Float64Array(width).fill(how === "max" ? -Infinity : 0);
  weights.forEach((weight, index) => {
    for (let i = 0; i < width; i += 1) {
      const number = hidden[index * width + i];
      if (how !== "max") vector[i] += weight * number;
      else if (weight) vector[i] = Math.max(vector[i], number);
    }
  });
  if (how === "max") return vector;
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return vector.map((sum) => sum / (how === "mean_sqrt_len_tokens" ? Math.sqrt(total) : total));
}

// A token's weight in the mean; `skip` tokens of a prompt have none.
function weighToken(how, index, length, skip) {
  if (index < skip) return 0;
  if (how === "cls") return index === skip ? 1 : 0;
  if (how === "lasttoken") return index === length - 1 ? 1 : 0;
  return how === "weightedmean" ? index + 1 : 1;
}
