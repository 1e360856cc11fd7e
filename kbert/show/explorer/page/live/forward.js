// BERT's forward pass. Every tensor stays in a Map by the name of its layer, and of its part there.

// Everything that is computed once: the weights, decoded and prepared for products.
function makeBert(config, weights, products) {
  const matrix = (layer, part = "") => {
    const name = part ? `${layer}/${part}` : layer;
    const [outputs, inputs] = weights.shapeOf(`${name}/kernel`);
    const bias = weights.has(`${name}/bias`) ? weights.read(`${name}/bias`) : null;
    return products.prepare({ kernel: weights.read(`${name}/kernel`), bias, inputs, outputs });
  };
  const norm = (layer) => ({ gamma: weights.read(`${layer}/gamma`), beta: weights.read(`${layer}/beta`) });
  const blocks = Array.from({ length: config.L }, (_, index) => {
    const attention = `Encoder-${index + 1}-MultiHeadSelfAttention`;
    const feedForward = `Encoder-${index + 1}-FeedForward`;
    return {
      attention, feedForward,
      query: matrix(attention, "query"), key: matrix(attention, "key"), value: matrix(attention, "value"),
      output: matrix(attention, "attention_output"), attentionNorm: norm(`${attention}-Norm`),
      intermediate: matrix(feedForward, "intermediate"), dense: matrix(feedForward, "output"),
      feedForwardNorm: norm(`${feedForward}-Norm`),
    };
  });
  return {
    config, weights, products, blocks, matrix, norm,
    embeddingNorm: norm("Embedding-Norm"),
    positions: weights.read("Embedding-Position/embeddings"),
    segments: weights.read("Embedding-Segment/embeddings"),
  };
}

// The tensors of some tokens. `off` names what is switched off, see client.js.
function computeTensors(bert, tokens, { off = {}, temperature = 1 }) {
  const tensors = new Map();
  const { L, H, A, padId } = bert.config;
  const run = {
    bert, tensors, temperature, length: tokens.length, off,
    keep: (name, shape, data) => {
      tensors.set(name, { shape, data });
      return data;
    },
    headsOff: new Set((off.heads || []).map(([block, head]) => `${block} ${head}`)),
    isPadding: tokens.map((token) => token.id === padId),
    sizes: { H, A, D: H / A },
  };
  let hidden = embed(run, tokens);
  for (let block = 1; block <= L; block += 1) hidden = applyBlock(run, block, hidden);
  return tensors;
}

function embed(run, tokens) {
  const { bert, keep, length } = run;
  const { H } = bert.config;
  const shape = [length, H];
  const token = keep("Embedding-Token", shape, new Float32Array(length * H));
  const segment = keep("Embedding-Segment", shape, new Float32Array(length * H));
  const position = keep("Embedding-Position/position", shape, new Float32Array(length * H));
  tokens.forEach(({ id, segment: number }, index) => {
    token.set(bert.weights.readRow("Embedding-Token/embeddings", id), index * H);
    segment.set(bert.segments.subarray(number * H, (number + 1) * H), index * H);
  });
  if (!run.off.positions) position.set(bert.positions.subarray(0, length * H));
  const both = keep("Embedding-Token-Segment", shape, add(token, segment));
  const sum = keep("Embedding-Position", shape, add(both, position));
  return keep("Embedding-Norm", shape, normalizeLayer(sum, bert.embeddingNorm, bert.config));
}

function applyBlock(run, number, hidden) {
  const { bert, keep, length } = run;
  const { H } = bert.config;
  const block = bert.blocks[number - 1];
  const shape = [length, H];
  const attended = keep(block.attention, shape, attend(run, number, hidden));
  const mixed = addAndNorm(run, block.attention, hidden, attended, block.attentionNorm);
  const fed = keep(block.feedForward, shape, feed(run, block, mixed));
  return addAndNorm(run, block.feedForward, mixed, fed, block.feedForwardNorm);
}

// softmax(query · keyᵀ / √D) · value, of each head, and the output projection.
function attend(run, number, hidden) {
  const { bert: { products, blocks }, keep, length, sizes: { H, A, D } } = run;
  const block = blocks[number - 1];
  const name = block.attention;
  const project = (part) => keep(`${name}/${part}`, [length, A, D], products.multiply(hidden, length, block[part]));
  const query = project("query");
  const key = project("key");
  const value = project("value");
  const scores = keep(`${name}/scores`, [A, length, length], products.score(query, key, length, A, D));
  for (let place = 0; place < scores.length; place += 1) scores[place] /= Math.sqrt(D);
  const probs = keep(`${name}/probs`, [A, length, length], computeProbs(run, scores));
  const context = keep(`${name}/context`, [length, A, D], products.mix(probs, value, length, A, D));
  switchHeadsOff(run, number, context);
  if (run.off.attention?.includes(number)) return new Float32Array(length * H);
  return products.multiply(context, length, block.output);
}

// Padding gets no attention.
function computeProbs({ temperature, length, isPadding }, scores) {
  const logits = scores.map((score, place) => (isPadding[place % length] ? -Infinity : score / temperature));
  return softmax(logits, length);
}

function switchHeadsOff({ headsOff, length, sizes: { H, A, D } }, number, context) {
  for (let head = 0; head < A; head += 1) {
    if (!headsOff.has(`${number} ${head + 1}`)) continue;
    for (let token = 0; token < length; token += 1) {
      context.fill(0, token * H + head * D, token * H + (head + 1) * D);
    }
  }
}

function feed(run, block, hidden) {
  const { bert: { products, config }, keep, length } = run;
  const name = block.feedForward;
  const wide = [length, config.F];
  const intermediate = keep(`${name}/intermediate`, wide, products.multiply(hidden, length, block.intermediate));
  const activation = keep(`${name}/activation`, wide, activate(intermediate, config.activation));
  return products.multiply(activation, length, block.dense);
}

// The sublayer's input is added to its output, then each token's vector is normalized.
function addAndNorm(run, name, input, output, norm) {
  const { bert: { config }, keep, length } = run;
  const shape = [length, config.H];
  const isOff = run.off.residuals?.includes(`${name}-Add`);
  const sum = keep(`${name}-Add`, shape, isOff ? output.slice() : add(input, output));
  return keep(`${name}-Norm`, shape, normalizeLayer(sum, norm, config));
}

function add(a, b) {
  const sum = new Float32Array(a.length);
  for (let place = 0; place < a.length; place += 1) sum[place] = a[place] + b[place];
  return sum;
}

// (x - mean) / √(variance + eps) · gamma + beta, of each row of H numbers.
function normalizeLayer(values, { gamma, beta }, { H, eps }) {
  const normalized = new Float32Array(values.length);
  for (let row = 0; row < values.length; row += H) {
    let mean = 0;
    for (let i = 0; i < H; i += 1) mean += values[row + i];
    mean /= H;
    let variance = 0;
    for (let i = 0; i < H; i += 1) variance += (values[row + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(variance / H + eps);
    for (let i = 0; i < H; i += 1) normalized[row + i] = (values[row + i] - mean) * scale * gamma[i] + beta[i];
  }
  return normalized;
}
