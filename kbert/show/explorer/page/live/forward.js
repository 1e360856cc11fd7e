// BERT's forward pass. Every tensor stays in a Map by the name of its layer, and of its part there.

const nameAttention = (block) => `Encoder-${block}-MultiHeadSelfAttention`;
const nameFeedForward = (block) => `Encoder-${block}-FeedForward`;

// Everything that is computed once: the weights, decoded and prepared for products.
function makeBert(config, weights, products) {
  const matrix = (name) => {
    const [outputs, inputs] = weights.shapeOf(`${name}/kernel`);
    const bias = weights.has(`${name}/bias`) ? weights.read(`${name}/bias`) : null;
    return prepareKernel(products, weights.read(`${name}/kernel`), outputs, inputs, bias);
  };
  const norm = (layer) => ({ gamma: weights.read(`${layer}/gamma`), beta: weights.read(`${layer}/beta`) });
  const blocks = Array.from({ length: config.L }, (_, index) => {
    const attention = nameAttention(index + 1);
    const feedForward = nameFeedForward(index + 1);
    return {
      query: matrix(`${attention}/query`), key: matrix(`${attention}/key`), value: matrix(`${attention}/value`),
      attention: matrix(`${attention}/attention_output`), attentionNorm: norm(`${attention}-Norm`),
      intermediate: matrix(`${feedForward}/intermediate`), feedForward: matrix(`${feedForward}/output`),
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

const prepareKernel = (products, kernel, outputs, inputs, bias) =>
  products.prepare({ data: kernel, start: 0, outputs, inputs, outputStride: inputs, inputStride: 1, bias });

const makeKeeper = (tensors) => (name, shape, data) => {
  tensors.set(name, { shape, data });
  return data;
};

// The tensors of some tokens; the request names what is switched off, see client.js.
function computeTensors(bert, tokens, request) {
  const tensors = new Map();
  const run = { bert, tensors, request, length: tokens.length, keep: makeKeeper(tensors) };
  let hidden = embed(run, tokens);
  for (let block = 1; block <= bert.config.L; block += 1) {
    hidden = addAndNorm(run, nameAttention(block), hidden, attend(run, block, hidden), bert.blocks[block - 1].attentionNorm);
    hidden = addAndNorm(run, nameFeedForward(block), hidden, feed(run, block, hidden), bert.blocks[block - 1].feedForwardNorm);
  }
  return tensors;
}

function embed({ bert, request, keep, length }, tokens) {
  const { config: { H }, weights, segments, positions } = bert;
  const shape = [length, H];
  const token = keep("Embedding-Token", shape, new Float32Array(length * H));
  const segment = keep("Embedding-Segment", shape, new Float32Array(length * H));
  const position = keep("Embedding-Position/position", shape, new Float32Array(length * H));
  tokens.forEach(({ id, segment: number }, index) => {
    token.set(weights.readRow("Embedding-Token/embeddings", id), index * H);
    segment.set(segments.subarray(number * H, (number + 1) * H), index * H);
  });
  if (!request.off.positions) position.set(positions.subarray(0, length * H));
  const both = keep("Embedding-Token-Segment", shape, add(token, segment));
  const sum = keep("Embedding-Position", shape, add(both, position));
  return keep("Embedding-Norm", shape, normalizeLayer(sum, bert.embeddingNorm, bert.config));
}

function attend({ bert: { config, products, blocks }, tensors, request, keep, length }, block, hidden) {
  const { H, A } = config;
  const matrices = blocks[block - 1];
  for (const part of ["query", "key", "value"]) {
    keep(`${nameAttention(block)}/${part}`, [length, A, H / A], project(products, hidden, length, matrices[part]));
  }
  attendHeads(products, tensors, block, request);
  if (request.off.attention.includes(block)) return new Float32Array(length * H);
  return project(products, tensors.get(`${nameAttention(block)}/context`).data, length, matrices.attention);
}

// softmax(query · keyᵀ / √D) · value of each head. A recording may be without them, or without values.
function attendHeads(products, tensors, block, { off, temperature }) {
  const name = nameAttention(block);
  const [query, key, value] = ["query", "key", "value"].map((part) => tensors.get(`${name}/${part}`));
  if (!query || !key) return;
  const keep = makeKeeper(tensors);
  const [length, heads, size] = query.shape;
  const scores = keep(`${name}/scores`, [heads, length, length], scoreHeads(products, query.data, key.data, query.shape));
  const probs = keep(`${name}/probs`, [heads, length, length], softmax(scores, length, temperature));
  if (!value) return;
  const context = keep(`${name}/context`, query.shape, mixHeads(products, probs, value.data, query.shape));
  for (const [, head] of off.heads.filter(([of]) => of === block)) {
    for (let token = 0; token < length; token += 1) {
      const end = (token * heads + head) * size;
      context.fill(0, end - size, end);
    }
  }
}

function feed({ bert: { products, config, blocks }, keep, length }, block, hidden) {
  const name = nameFeedForward(block);
  const { intermediate, feedForward } = blocks[block - 1];
  const wide = keep(`${name}/intermediate`, [length, config.F], project(products, hidden, length, intermediate));
  const activated = keep(`${name}/activation`, [length, config.F], activate(wide, config.activation));
  return project(products, activated, length, feedForward);
}

// The sublayer's input is added to its output, then each token's vector is normalized.
function addAndNorm({ bert: { config }, request, keep, length }, name, input, output, norm) {
  const shape = [length, config.H];
  keep(name, shape, output);
  const isOff = request.off.residuals.includes(`${name}-Add`);
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
