// The MLM head: candidates for tokens.

const CANDIDATES = 10;

// Ten candidates at each [MASK] and each position that is asked for, of the last block and of every block.
OUTPUTS.mlm = (run) => {
  const { heads, tokens, live, request } = run;
  if (!heads.vocabulary) return undefined;
  applyMlmHead(run, run.last, run.length, run.keep);
  const isAsked = (position) => tokens[position].id === live.tokenizer.maskId || request.positions.includes(position);
  return [...tokens.keys()].filter(isAsked).map((position) => {
    const blocks = predictFromBlocks(run, position);
    return { position, candidates: blocks[blocks.length - 1], blocks };
  });
};

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
