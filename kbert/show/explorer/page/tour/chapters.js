// The chapters of the tour, about the model that is drawn: two sentences, something to do, and the box
// that is shown. `typing`: a phone shows the field of the sentence instead of the box.

// What there is to do, by chapter: tasks/typed.js, recorded.js or still.js. A chapter without it is
// left out.
const TASKS = {};

// By head, in heads/: how the last block's vectors are read ([the layer where it is seen, a
// sentence, what to try where one can type]), and sentences to begin with.
const HEAD_OUTPUTS = {};
const EXAMPLES = {};

const ATTENTION_1 = "Encoder-1-MultiHeadSelfAttention";

const CHAPTERS = {
  words: ({ n }) => ({
    title: "Words become numbers",
    text: `The tokenizer cuts a text into tokens, which are words or pieces of words: each has a number, its id, in a list of ${n.T}. ` +
      `For each token the model looks up one row of a table: a vector of ${n.H} numbers, which it has learned.`,
    chosen: live ? "Input-Token" : "Embedding-Token",
    typing: true,
  }),
  sum: ({ config, n }) => ({
    title: `${config.G > 1 ? "Three" : "Two"} vectors added`,
    text: `Each token's vector is a sum of ${config.G > 1 ? `three: which token it is, which of ${n.G} segments it is in,` : "two: which token it is,"} and at which position it stands. ` +
      "Without the position the model could not tell “dog bites man” from “man bites dog”.",
    chosen: "Embedding-Position",
  }),
  norm: ({ n }) => ({
    title: "Norm",
    text: `LayerNorm shifts and scales the ${n.H} numbers of each token: their mean becomes 0, their variance 1. ` +
      "Then each number gets a learned scale and offset; every block does this twice, so that the numbers neither explode nor vanish.",
    chosen: "Embedding-Norm",
  }),
  question: () => ({
    title: "A question to every word",
    text: "In a block each token makes three vectors: a query, a key and a value, by the matrices W_Q, W_K and W_V. " +
      "The query of one token times the key of another is a score: how much the first one wants to know of the second.",
    chosen: `${ATTENTION_1}/query`,
  }),
  heads: ({ config, n }) => ({
    title: config.A === 1 ? "One head" : `${n.A} heads`,
    text: `A block asks ${config.A === 1 ? "one question" : `${n.A} questions at once`}: each head makes its own queries, keys and values, of ${grouped(config.H / config.A)} numbers each. ` +
      "Some heads look at the previous or the next token, some at many; others look at the separator, probably when they find nothing.",
    chosen: `${ATTENTION_1}/heads`,
  }),
  keep: () => ({
    title: "Mix and keep",
    text: "Each token collects the values of all tokens, mixed by its weights, and W_O joins what the heads collected. " +
      "The result is added to what the token was before: this residual connection keeps it.",
    chosen: `${ATTENTION_1}-Add`,
  }),
  feedforward: ({ n, feedForward }) => ({
    title: "The feed-forward layer",
    text: `This layer sees each token alone: ${n.H} numbers become ${n.FFD}, an activation function holds the negative ones back, and they become ${n.H} again. ` +
      `In all blocks together these layers hold ${percent(feedForward)} of the parameters.`,
    chosen: "Encoder-1-FeedForward",
  }),
  output: ({ config, n }) => {
    const [layer, text, task] = HEAD_OUTPUTS[DATA.head]({ config, n });
    return {
      title: "What comes out",
      text: `After block ${n.L}, the last one, a token's vector depends on the whole text: “bank” by a river is not “bank” with money. ${text}`,
      task: live && live.place !== "recorded" ? task : undefined,
      chosen: layerOf(layer, config) ? layer : NAMES.output(config.L),
      typing: true,
    };
  },
  cost: ({ n, total }) => ({
    title: "What it costs",
    text: `One pass of ${n.B} × ${n.S} tokens takes ${flops(total.flops)}; the weights are ${bytes(total.bytes)}. ` +
      "Most matrix products grow with the length S, those of the attention's weights with S², because every token asks every token.",
    task: "Move the slider S, length, and read the totals.",
    chosen: "", measure: "flops",
  }),
};
const CODA = "cost";  // comes after the eight chapters

const firstToken = () => (DATA.family === "BERT" ? "[CLS]" : "the first token");

// The model predicts numbers, as `kbert regress` does, not probabilities of labels.
const isRegression = () => live?.labelFunction === "linear";

// This page's chapters, in order. Their texts are made of the sizes: as numbers, and as they are written.
function pageChapters() {
  const config = current();
  const { byRow, total } = count(config);
  const n = Object.fromEntries(Object.entries(config).filter(([, size]) => Number.isFinite(size)).map(([letter, size]) => [letter, grouped(size)]));
  const feedForward = share(byRow["Encoder-{n}-FeedForward"].params * BigInt(config.L), total.params);
  return Object.entries(CHAPTERS).map(([name, write]) => ({ name, ...write({ config, n, total, feedForward }) }))
    .map((chapter) => ({ ...chapter, task: chapter.task ?? TASKS[chapter.name] })).filter(({ task }) => task);
}

// What a chapter shows: its box, in a model that nothing is switched off in. Sizes and sentence stay.
function chapterState({ name, chosen, measure }) {
  const layer = layerOf(chosen, current());
  const shown = { chapter: name, chosen, open: layer?.n || 0, attention: Boolean(layer?.part) };
  if (measure || state.chapter === CODA) shown.measure = measure || "params";
  if (!live) return shown;
  const { text, pair, token, ...untouched } = SENTENCE_STATE();
  return { ...shown, ...untouched };
}

// The address of a chapter.
function chapterFragment(chapter) {
  const before = { ...state };
  Object.assign(state, chapterState(chapter));
  const fragment = toFragment();
  Object.assign(state, before);
  return fragment;
}
