// What the checkpoint's heads make of the last hidden state.

// By the output's name in a trace: what computes it of a run; undefined: the checkpoint lacks a part.
const OUTPUTS = {};

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
  const { bert, heads } = model;
  const last = tensors.get(`${nameFeedForward(bert.config.L)}-Norm`).data;
  const run = { ...model, products: bert.products, tokens, tensors, length: tokens.length, last, request, keep: makeKeeper(tensors) };
  run.pooled = heads["NSP-Dense"] ? applyPooler(run) : null;
  const outputs = Object.entries(OUTPUTS).map(([name, compute]) => [name, compute(run)]);
  return Object.fromEntries(outputs.filter(([, output]) => output));
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
