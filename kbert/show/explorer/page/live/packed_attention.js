// Attention's weights as attention_weights.py packs them: of few tokens all, of many the largest of each row.

const WEIGHT_STEPS = 65535;

const decodeWords = (text) => new Uint16Array(decodeBase64(text).buffer);

// Adds the maps of each block to a trace's tensors; of a head that is not in the page they are 0.
function addWeights(tensors, attention, size, config) {
  const { blocks, heads, largest } = attention;
  const weights = decodeWords(attention.weights);
  const columns = largest ? decodeWords(attention.columns) : null;
  const area = size * (largest ?? size);  // numbers of one map
  blocks.forEach((block, place) => {
    const probs = { shape: [config.A, size, size], data: new Float32Array(config.A * size * size), heads };
    heads.forEach((head, n) => {
      const start = (place * heads.length + n) * area;
      const map = probs.data.subarray((head - 1) * size * size, head * size * size);
      if (columns) spreadRows(map, weights.subarray(start), columns.subarray(start), size, largest);
      else for (let at = 0; at < area; at += 1) map[at] = weights[start + at] / WEIGHT_STEPS;
    });
    tensors.set(`Encoder-${block}-MultiHeadSelfAttention/probs`, probs);
  });
}

// A map of its rows' largest weights; the rest of a row is even.
function spreadRows(map, weights, columns, size, largest) {
  for (let row = 0; row < size; row += 1) {
    let rest = 1;
    for (let n = 0; n < largest; n += 1) rest -= weights[row * largest + n] / WEIGHT_STEPS;
    map.fill(Math.max(0, rest) / Math.max(1, size - largest), row * size, (row + 1) * size);
    for (let n = 0; n < largest; n += 1) map[row * size + columns[row * largest + n]] = weights[row * largest + n] / WEIGHT_STEPS;
  }
}
