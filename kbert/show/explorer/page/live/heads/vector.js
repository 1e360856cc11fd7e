// The sentence's vector, as sentence-transformers has it: pooled, through dense layers, normalized.

OUTPUTS.vector = ({ bert, products, heads, live: { pooling }, last, pooled }) => {
  if (!pooled && pooling.poolings.includes("pooler")) return undefined;
  const { H } = bert.config;
  const poolings = pooling.poolings.map((how) => (how === "pooler" ? pooled : poolTokens(how, last, H, pooling.skip)));
  let vector = Float32Array.from(poolings.flatMap((part) => [...part]));
  for (const { matrix, activation } of heads.dense) vector = activate(project(products, vector, 1, matrix), activation);
  if (pooling.normalize) {
    const norm = Math.max(Math.hypot(...vector), 1e-12);
    vector = vector.map((number) => number / norm);
  }
  return pooling.dimensions ? vector.slice(0, pooling.dimensions) : vector;
};

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
