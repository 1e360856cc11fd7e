// The sentence's part of the state, and of the address: text, pair, what is off, temperature, frozen text.

const SENTENCE_STATE = () => ({
  ...firstSentence(),  // text, and pair: the second sentence; null: there is none
  off: { heads: [], attention: [], residuals: [], positions: false },
  temperature: 1,      // the scores are divided by it before the softmax
  frozen: null,        // a text to compare with
  frozenPair: null,
  token: -1,           // the column that is kept lit
  colours: "numbers",  // what the strips show
});

function firstSentence() {
  const recorded = live.place === "recorded" && live.recordings?.[0]?.request;
  if (recorded) return { text: recorded.text, pair: recorded.pair ?? null };
  return splitPair((live.sentences?.length ? live.sentences : EXAMPLES[DATA.head] || EXAMPLES.encoder)[0]);
}

// A sentence as it is written into the page: a tab is between the texts of a pair.
function splitPair(sentence) {
  const [text, pair] = sentence.split("\t");
  return { text, pair: pair ?? null };
}

// Sentences by the head, for a page that was written without.
const EXAMPLES = {
  encoder: [
    "The animal did not cross the street because it was too tired.", "She sat on the bank of the river.",
    "The bank raised its interest rates.", "Dog bites man.", "Man bites dog.",
  ],
  pretraining: [
    "The capital of France is [MASK].", "The animal did not cross the street because it was too [MASK].",
    "She sat on the bank of the [MASK].", "Where do you live?\tI live in Paris.",
  ],
  classifier: ["What a wonderful film.", "The food was cold and the service slow."],
  tokens: ["Angela Merkel met Emmanuel Macron in Paris.", "The company was founded in Seattle by Bill Gates."],
  qa: ["Where does the river rise?\tThe Rhine rises in the Swiss Alps and flows into the North Sea."],
  choice: ["She opened the umbrella because\tit was raining."],
};

const COLOURS = ["numbers", "change", "difference"];
const TEXTS = { text: "text", pair: "pair", frozen: "frozen", "frozen-pair": "frozenPair" };

const clone = (value) => JSON.parse(JSON.stringify(value));

// What is off, a name each: head-2.3 (block, head), attention-4, positions, or a residual's layer.
function listOff(off) {
  return [
    ...off.heads.map(([block, head]) => `head-${block}.${head}`),
    ...off.attention.map((block) => `attention-${block}`),
    ...off.residuals,
    ...(off.positions ? ["positions"] : []),
  ];
}

function readOff(names) {
  const { L, A } = DATA.values;
  const off = SENTENCE_STATE().off;
  for (const name of names) {
    const [, kind, block, head] = /^(head|attention)-(\d+)(?:\.(\d+))?$/.exec(name) || [];
    const known = Number(block) >= 1 && Number(block) <= L;
    if (kind === "head" && known && Number(head) >= 1 && Number(head) <= A) off.heads.push([Number(block), Number(head)]);
    else if (kind === "attention" && known) off.attention.push(Number(block));
    else if (name === "positions") off.positions = true;
    else if (name.endsWith("-Add") && layerOf(name, DATA.values)) off.residuals.push(name);
  }
  return off;
}

// The settings that differ from the page's own, as the address has them.
function sentenceSettings() {
  const start = SENTENCE_STATE();
  const parts = Object.entries(TEXTS)
    .filter(([, key]) => state[key] !== start[key])
    .map(([name, key]) => `${name}=${encodeURIComponent(state[key] ?? "")}`);
  const off = listOff(state.off);
  if (off.length) parts.push(`off=${off.join(",")}`);
  for (const key of ["temperature", "token", "colours"]) {
    if (state[key] !== start[key]) parts.push(`${key}=${state[key]}`);
  }
  return parts;
}

// Reads them again; what makes no sense is as the page begins.
function readSentence(view) {
  const read = SENTENCE_STATE();
  for (const [name, key] of Object.entries(TEXTS)) {
    if (view[name] !== undefined) read[key] = decodeText(view[name]);
  }
  read.off = readOff((view.off || "").split(","));
  const temperature = Number(view.temperature);
  if (temperature >= COLDEST && temperature <= HOTTEST) read.temperature = temperature;
  if (/^\d+$/.test(view.token)) read.token = Number(view.token);
  if (COLOURS.includes(view.colours)) read.colours = view.colours;
  Object.assign(state, read);
}

function decodeText(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;  // not of this page's making
  }
}
