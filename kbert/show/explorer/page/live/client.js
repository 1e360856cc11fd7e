// The model of the page, for the page: `openModel(DATA.live)` gives {run(request), canType}; where
// the page computes also isFast: by WebAssembly.
//
// request = {text, pair: string|null, off: {heads: [[block, head], …], attention: [block, …],
//   residuals: [name of an Add layer, …], positions: boolean}, temperature: 1, positions: [token, …]}
//   Blocks and heads count from 1; `positions` names tokens, from 0, for which MLM candidates are
//   wanted beside those of the tokens that are [MASK]. All but `text` may be left out.
//
// Trace = {request, milliseconds, truncated: boolean, tokens: [{text, id, segment, special, start,
//   end}], tensors: Map(name -> {shape, data: Float32Array}), outputs}
//   `start` and `end` of a token are in the text or pair that it is of, in UTF-16 units.
//   outputs = {vector?, mlm?: [{position, candidates: [{token, prob}], blocks}], nsp?: {isNext},
//   classes?: [{label, prob}], tags?: [[{label, prob}]], answer?: {text, start, end, prob}}
//   Labels stand with the highest first; the tensors have their logits in the order of DATA.live.labels.
//
// Tensors have the names of kbert's layers, and of their parts: forward.js has them all.

// Where a page's numbers come from, by DATA.live.place; a page has the place that it needs.
const PLACES = {};

async function openModel(live) {
  const { run, ...facts } = await PLACES[live.place](live);
  return { ...facts, run: async (request) => run(request) };
}
