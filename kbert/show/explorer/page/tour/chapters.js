// The chapters of the tour, about the model that is drawn: two sentences, something to do, and the box
// that is shown. To do is `live` where one can type, `still` on a page without a sentence (a chapter
// without it is left out there), `recorded` where sentences can only be looked at. `typing`: a phone
// shows the field of the sentence instead of the box.

const ATTENTION_1 = "Encoder-1-MultiHeadSelfAttention";
const MOVE_LENGTH = "Move the slider S, length, and read the totals.";

const CHAPTERS = {
  words: ({ n }) => ({
    title: "Words become numbers",
    text: `The tokenizer cuts a text into tokens, which are words or pieces of words: each has a number, its id, in a list of ${n.T}. ` +
      `For each token the model looks up one row of a table: a vector of ${n.H} numbers, which it has learned.`,
    live: "Type a rare word into the sentence, such as your name: it becomes several tokens. Point at a token to read its id.",
    still: "Move the slider T, tokens: the table has one row per token, so the parameters grow with it.",
    chosen: live ? "Input-Token" : "Embedding-Token",
    typing: true,
  }),
  sum: ({ config, n }) => ({
    title: `${config.G > 1 ? "Three" : "Two"} vectors added`,
    text: `Each token's vector is a sum of ${config.G > 1 ? `three: which token it is, which of ${n.G} segments it is in,` : "two: which token it is,"} and at which position it stands. ` +
      "Without the position the model could not tell “dog bites man” from “man bites dog”.",
    live: "Choose a word under the figure and press Swap →: it keeps its token vector, and gets the vector of another position.",
    still: "Move the slider P, positions: each position has a row of its own, which the longest text needs.",
    chosen: "Embedding-Position",
  }),
  norm: ({ n }) => ({
    title: "Norm",
    text: `LayerNorm shifts and scales the ${n.H} numbers of each token: their mean becomes 0, their variance 1. ` +
      "Then each number gets a learned scale and offset; every block does this twice, so that the numbers neither explode nor vanish.",
    live: "Point at a token: see its numbers before LayerNorm and after.",
    chosen: "Embedding-Norm",
  }),
  question: () => ({
    title: "A question to every word",
    text: "In a block each token makes three vectors: a query, a key and a value, by the matrices W_Q, W_K and W_V. " +
      "The query of one token times the key of another is a score: how much the first one wants to know of the second.",
    live: "Point at a token: its query meets every key, and below, softmax turns its row of scores into weights with the sum 1.",
    still: "Choose W_K, then W_V in the figure: all three have the same shape, and are learned apart.",
    chosen: `${ATTENTION_1}/query`,
  }),
  heads: ({ config, n }) => ({
    title: config.A === 1 ? "One head" : `${n.A} heads`,
    text: `A block asks ${config.A === 1 ? "one question" : `${n.A} questions at once`}: each head makes its own queries, keys and values, of ${grouped(config.H / config.A)} numbers each. ` +
      "Some heads look at the previous or the next token, some at many; others look at the separator, probably when they find nothing.",
    live: "Press Freeze, then switch a head off: the darker a column, the more this token's vector has changed.",
    still: "Choose a head: the details say which columns of the matrices are its own.",
    chosen: `${ATTENTION_1}/heads`,
  }),
  keep: () => ({
    title: "Mix and keep",
    text: "Each token collects the values of all tokens, mixed by its weights, and W_O joins what the heads collected. " +
      "The result is added to what the token was before: this residual connection keeps it.",
    live: "Switch this residual off: what the token was is lost, and only the mixture is left.",
    chosen: `${ATTENTION_1}-Add`,
  }),
  feedforward: ({ n, feedForward }) => ({
    title: "The feed-forward layer",
    text: `This layer sees each token alone: ${n.H} numbers become ${n.FFD}, an activation function holds the negative ones back, and they become ${n.H} again. ` +
      `In all blocks together these layers hold ${percent(feedForward)} of the parameters.`,
    live: "Point at a token: its points on the activation's curve show which of its numbers pass.",
    still: "Move the slider FFD, feed-forward, and see how this part of the model grows.",
    chosen: "Encoder-1-FeedForward",
  }),
  output: ({ config, n }) => {
    const [layer, text, task] = HEAD_OUTPUTS[DATA.head]({ config, n });
    return {
      title: "What comes out",
      text: `After block ${n.L}, the last one, a token's vector depends on the whole text: “bank” by a river is not “bank” with money. ${text}`,
      live: task || "Change one word, and see what comes out.",
      still: "Follow the arrows upwards: choose the layers above the encoder one after the other.",
      chosen: layerOf(layer, config) ? layer : NAMES.output(config.L),
      typing: true,
    };
  },
  cost: ({ n, total }) => ({
    title: "What it costs",
    text: `One pass of ${n.B} × ${n.S} tokens takes ${flops(total.flops)}; the weights are ${bytes(total.bytes)}. ` +
      "Most matrix products grow with the length S, those of the attention's weights with S², because every token asks every token.",
    live: MOVE_LENGTH, recorded: MOVE_LENGTH, still: MOVE_LENGTH,
    chosen: "", measure: "flops",
  }),
};
const CODA = "cost";  // comes after the eight chapters

// What a head makes of the last block's vectors: the layer where it is seen, a sentence, what to try.
const HEAD_OUTPUTS = {
  pretraining: ({ config, n }) => ["MLM-Sim",
    `The MLM head compares it with all ${n.T} rows of the token table and guesses the token${
      layerOf("NSP", config) ? `; the NSP head reads ${firstToken()} and says whether the second text follows the first` : ""}.`,
    "Choose a word under the figure and hide it: the ten likeliest tokens come out."],
  encoder: () => [takesMean() ? "" : "NSP-Dense",
    `${takesMean() ? "The mean of these vectors" : `The vector of ${firstToken()}`} stands for the text: a model trained for it gives texts of similar meaning similar vectors.`,
    "Press Freeze, change one word, and read the cosine of the two vectors."],
  classifier: ({ n }) => ["Classifier", `The classifier reads the vector of ${firstToken()} and gives one number per label, ${n.K} in all; softmax makes probabilities of them.`],
  tokens: ({ n }) => ["TokenClassifier", `The classifier gives ${n.K} numbers per token, one for each label; softmax makes probabilities of them.`],
  qa: () => ["Span", "The head gives two numbers per token: whether the answer starts there, and whether it ends there."],
  choice: () => ["Classifier", `The classifier reads the vector of ${firstToken()} and gives one number per choice; the largest is the answer.`],
};

const firstToken = () => (DATA.family === "BERT" ? "[CLS]" : "the first token");
const takesMean = () => Boolean(live?.pooling?.poolings.includes("mean"));

const RECORDED_TASK = "Point at a token under the figure: its column lights up in every layer, and its numbers are shown large.";

function taskOf(chapter) {
  if (!live) return chapter.still;
  return live.place === "recorded" ? chapter.recorded || RECORDED_TASK : chapter.live;
}

// This page's chapters, in order. Their texts are made of the sizes: as numbers, and as they are written.
function pageChapters() {
  const config = current();
  const { byRow, total } = count(config);
  const n = Object.fromEntries(Object.entries(config).filter(([, size]) => Number.isFinite(size)).map(([letter, size]) => [letter, grouped(size)]));
  const feedForward = share(byRow["Encoder-{n}-FeedForward"].params * BigInt(config.L), total.params);
  return Object.entries(CHAPTERS).map(([name, write]) => ({ name, ...write({ config, n, total, feedForward }) }))
    .filter(({ still }) => live || still);
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
