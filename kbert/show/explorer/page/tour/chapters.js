// The chapters of the tour: two sentences each, one thing to do, and the state that they show. Their
// texts are about the model that is drawn. What to do is `live` where one can type, `recorded` where
// sentences can only be looked at, `still` on a page without one; a chapter that has no `still` is
// left out there.

const attentionOf = (part) => `Encoder-1-MultiHeadSelfAttention${part}`;

const CHAPTERS = {
  words: {
    title: () => "Words become numbers",
    text: ({ config }) => [
      `The tokenizer cuts a text into tokens, words or pieces of words, and knows each by its number in a list of ${grouped(config.T)}.`,
      `For every token the model looks up one row of a table: ${grouped(config.H)} numbers, which training has found.`,
    ],
    live: () => "Type a word into the sentence. A rare word, such as your name, becomes several tokens.",
    still: () => "Move the slider T, tokens: the table has one row per token, so the parameters grow with it.",
    state: () => ({ chosen: "Embedding-Token" }),
  },
  sum: {
    title: ({ config }) => (config.G > 1 ? "Three vectors added" : "Two vectors added"),
    text: ({ config }) => [
      config.G > 1 ? `Each token's vector is a sum of three: which token it is, which of ${config.G} segments it is in, and at which position it stands.`
        : "Each token's vector is a sum of two: which token it is, and at which position it stands.",
      "Without the position the model could not tell “dog bites man” from “man bites dog”.",
    ],
    live: () => "Drag one word under the figure onto another: the tokens' vectors change places, those of the positions stay.",
    still: () => "Move the slider P, positions: each position has a row of its own, which the longest text needs.",
    state: () => ({ chosen: "Embedding-Position" }),
  },
  norm: {
    title: () => "Norm",
    text: ({ config }) => [
      `LayerNorm shifts and scales the ${grouped(config.H)} numbers of each token: their mean becomes 0, their variance 1.`,
      "Then it multiplies and adds what it has learned; every block does so twice, and the numbers neither explode nor vanish.",
    ],
    live: () => "Point at a token: its numbers before and after stand beside each other.",
    state: () => ({ chosen: "Embedding-Norm" }),
  },
  question: {
    title: () => "A question to every word",
    text: () => [
      "In a block each token makes three vectors: a query, a key and a value, by the matrices W_Q, W_K and W_V.",
      "The query of one token times the key of another is a score: how much the first one wants to know of the second.",
    ],
    live: () => "Point at a token: its query meets every key, and softmax turns the scores into weights with the sum 1.",
    still: () => "Choose W_K, then W_V in the figure: all three have the same shape, and are learned apart.",
    state: () => ({ chosen: attentionOf("/query") }),
  },
  heads: {
    title: ({ config }) => (config.A === 1 ? "One head" : `${capital(inWords(config.A))} heads`),
    text: ({ config }) => [
      config.A === 1 ? `This block asks one question at a time: its only head has all ${grouped(config.H)} numbers.`
        : `A block asks ${inWords(config.A)} questions at once: each head has ${config.H / config.A} of the ${grouped(config.H)} numbers and weights of its own.`,
      "Some heads look at the next word, some at the same word, and many at the separator when they find nothing.",
    ],
    live: ({ config }) => (config.A === 1 ? "Point at a token: the row shows where this head looks." : "Switch a head off, and see how the colours above it change."),
    still: ({ config }) => `Choose another head: the details say which ${config.H / config.A} columns of the matrices are its own.`,
    state: () => ({ chosen: attentionOf("/head-1") }),
  },
  keep: {
    title: () => "Mix and keep",
    text: () => [
      "Each token takes a mixture of the values of all tokens, by the weights of its question.",
      "The mixture is added to what the token was before, which is called a residual connection: nothing is forgotten.",
    ],
    live: () => "Switch this residual off: what the token was is lost, and only the mixture is left.",
    state: () => ({ chosen: attentionOf("-Add") }),
  },
  feedforward: {
    title: () => "The feed-forward layer",
    text: ({ config, feedForward }) => [
      `Now each token is worked on alone: ${grouped(config.H)} numbers become ${grouped(config.FFD)}, an activation bends them, and they become ${grouped(config.H)} again.`,
      `In all blocks together these layers hold ${percent(feedForward)} of the parameters.`,
    ],
    live: () => "Point at a token: its points on the activation's curve show which of its numbers pass.",
    still: () => "Move the slider FFD, feed-forward, and see how this part of the model grows.",
    state: () => ({ chosen: "Encoder-1-FeedForward" }),
  },
  output: {
    title: () => "What comes out",
    text: ({ config }) => [
      `After ${config.L === 1 ? "the only block" : `the last of ${grouped(config.L)} blocks`} every token has a vector that knows its neighbours: “bank” by a river is not “bank” with money.`,
      OUTPUT_TEXTS[DATA.head](config),
    ],
    live: () => OUTPUT_TASKS[DATA.head] || "Change one word, and see what comes out.",
    still: () => "Follow the arrows upwards: choose the layers above the encoder one after the other.",
    state: ({ config }) => ({ chosen: outputLayer(config) }),
  },
  cost: {
    title: () => "What it costs",
    text: ({ config, counted }) => [
      `One pass of ${grouped(config.B)} × ${grouped(config.S)} tokens takes ${flops(counted.total.flops)}; the weights are ${bytes(counted.total.bytes)}.`,
      "Most products grow with the length S, the scores of the attention with S², for every token asks every token.",
    ],
    live: () => "Move the slider S, length, and read the totals.",
    recorded: () => "Move the slider S, length, and read the totals.",
    still: () => "Move the slider S, length, and read the totals.",
    state: () => ({ chosen: "", measure: "flops" }),
  },
};
const CODA = "cost";  // comes after the eight chapters

// The layer that answers; where it is the mean that does, or there is no head, the last block.
function outputLayer(config) {
  const layer = OUTPUT_LAYERS[DATA.head];
  const mean = DATA.head === "encoder" && takesMean();
  return !mean && layerOf(layer, config) ? layer : NAMES.output(config.L);
}

const firstToken = () => (DATA.family === "BERT" ? "[CLS]" : "the first token");
const takesMean = () => Boolean(DATA.live?.pooling?.poolings.includes("mean"));

const OUTPUT_TEXTS = {
  pretraining: (config) => `The MLM head compares it with all ${grouped(config.T)} rows of the token table and guesses the word${
    layerOf("NSP", config) ? `; the NSP head reads ${firstToken()} and says whether the second text follows the first` : ""}.`,
  encoder: () => `${takesMean() ? "The mean of these vectors" : `The vector of ${firstToken()}`} stands for the text: texts of similar meaning have similar vectors.`,
  classifier: (config) => `The classifier reads the vector of ${firstToken()} and gives one number per label, ${config.K} in all; softmax makes probabilities of them.`,
  tokens: (config) => `The classifier gives ${config.K} numbers per token, one for each label; softmax makes probabilities of them.`,
  qa: () => "The head gives two numbers per token: whether the answer starts there, and whether it ends there.",
  choice: () => `The classifier reads the vector of ${firstToken()} and gives one number per choice; the largest is the answer.`,
};
const OUTPUT_LAYERS = {
  pretraining: "MLM-Sim", encoder: "NSP-Dense", classifier: "Classifier", tokens: "TokenClassifier", qa: "Span", choice: "Classifier",
};
const OUTPUT_TASKS = {
  pretraining: "Choose a word under the figure and hide it: the ten likeliest words come out.",
  encoder: "Freeze the sentence, change one word, and read how similar the two vectors are.",
};

const WORDS = ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
const inWords = (number) => WORDS[number] || grouped(number);
const capital = (text) => text[0].toUpperCase() + text.slice(1);

const TOUR_TEXT = "The animal did not cross the street because it was too tired.";  // where there is none

const hasSentence = () => Boolean(DATA.live);
const RECORDED_TASK = "Point at a token under the figure: its column lights in every layer, and in the stage.";

function taskOf(chapter, facts) {
  if (!hasSentence()) return chapter.still(facts);
  if (DATA.live.place === "recorded") return chapter.recorded ? chapter.recorded(facts) : RECORDED_TASK;
  return chapter.live(facts);
}

// The names of this page's chapters, in order.
const chapterNames = () => Object.keys(CHAPTERS).filter((name) => hasSentence() || CHAPTERS[name].still);

// What the chapters' texts are made of.
function tourFacts() {
  const config = current();
  const counted = count(config);
  const layer = counted.byRow["Encoder-{n}-FeedForward"].params * BigInt(config.L);
  return { config, counted, feedForward: share(layer, counted.total.params) };
}

// What a chapter shows, on top of what stays: sizes, sentence, measure.
function chapterState(name, facts) {
  const shown = { chapter: name, open: 0, attention: false, ...CHAPTERS[name].state(facts) };
  if (hasSentence() && !state.text && DATA.live.place !== "recorded") shown.text = TOUR_TEXT;
  if (shown.measure === undefined && state.chapter === CODA) shown.measure = "params";
  const layer = layerOf(shown.chosen, facts.config);
  if (layer?.n) shown.open = layer.n;
  if (layer?.part) shown.attention = true;
  return shown;
}

// The address of a chapter.
function chapterFragment(name, facts) {
  const before = { ...state };
  Object.assign(state, chapterState(name, facts));
  const fragment = toFragment();
  Object.assign(state, before);
  return fragment;
}
