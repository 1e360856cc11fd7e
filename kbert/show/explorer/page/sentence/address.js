// The sentence's part of the state, and of the address.

const SENTENCE_STATE = () => ({
  ...exampleSentences()[0],  // text, and pair: the second sentence; null: there is none
  off: [],              // the names of what is switched off, see changes.js
  temperature: 1,       // the scores are divided by it before the softmax
  frozen: null,         // a text to compare with
  frozenPair: null,
  token: -1,            // the column that is kept lit; in the stage, the token that asks
  to: -1,               // the token that is asked; -1: the one that gets most
  hidesSpecial: false,  // whether [CLS] and [SEP] are left out of the attention
  allHeads: false,      // whether the heads of all blocks are open
});

// The sentences to choose from: what was recorded, given to the page, or some for its head.
function exampleSentences() {
  const recorded = live.recordings || [];
  const given = live.sentences?.length ? live.sentences : EXAMPLES[DATA.head];
  const typed = live.place === "recorded" && recorded.length ? [] : given.map((sentence) => {
    const [text, pair] = sentence.split("\t");  // between the texts of a pair
    return { text, pair };
  });
  return [...recorded.map(({ request }) => request), ...typed]
    .map(({ text, pair }) => ({ text, pair: takesPair() ? pair ?? null : null }));
}

const takesPair = () => (live.config.G || 2) > 1;

// How the parts of the state stand in the address: their names there, how they are read and written.
// Of a text that there may not be, the name stands alone if there is none.
const TEXT = { read: decodeText, write: (text) => encodeURIComponent(text.toWellFormed()) };
const OPTIONAL_TEXT = { ...TEXT, optional: true };
const PLACE = { read: (text) => (/^\d+$/.test(text) ? Number(text) : -1), write: String };
const flag = (word) => ({ read: (text) => text === word, write: () => word });
const SETTINGS = {
  text: { name: "text", ...TEXT },
  pair: { name: "pair", ...OPTIONAL_TEXT },
  frozen: { name: "frozen", ...OPTIONAL_TEXT },
  frozenPair: { name: "frozen-pair", ...OPTIONAL_TEXT },
  off: { name: "off", read: readOff, write: String },
  temperature: { name: "temperature", read: readTemperature, write: String },
  token: { name: "token", ...PLACE },
  hidesSpecial: { name: "special", ...flag("hidden") },
  to: { name: "to", ...PLACE },
  allHeads: { name: "heads", ...flag("all") },
};

function sentenceSettings() {
  const start = SENTENCE_STATE();
  const isChanged = (key) => JSON.stringify(state[key]) !== JSON.stringify(start[key]);
  return Object.entries(SETTINGS).filter(([key]) => isChanged(key))
    .map(([key, { name, write }]) =>
      (state[key] === null ? name : `${name}=${write(state[key])}`));
}

function readSentence(view) {
  Object.assign(state, SENTENCE_STATE());
  for (const [key, { name, read, optional }] of Object.entries(SETTINGS)) {
    if (view[name] !== undefined) state[key] = read(view[name]);
    else if (optional && Object.hasOwn(view, name)) state[key] = null;
  }
  if (live.place === "recorded") keepToRecordings();
}

// A page with recordings alone has no other sentences, and nothing of the model is off in it.
function keepToRecordings() {
  const sentences = exampleSentences();
  const isRecorded = (asked, askedPair) =>
    sentences.some(({ text, pair }) => text === asked && pair === askedPair);
  Object.assign(state, { off: [], temperature: 1 });
  if (!isRecorded(state.text, state.pair)) Object.assign(state, sentences[0]);
  if (!isRecorded(state.frozen, state.frozenPair)) Object.assign(state, { frozen: null, frozenPair: null });
}

function decodeText(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;  // not of this page's making
  }
}
