// The sentence's part of the state, and of the address.

const SENTENCE_STATE = () => ({
  ...exampleSentences()[0],  // text, and pair: the second sentence; null: there is none
  off: { heads: [], attention: [], residuals: [], positions: false },
  temperature: 1,      // the scores are divided by it before the softmax
  frozen: null,        // a text to compare with
  frozenPair: null,
  token: -1,           // the column that is kept lit
  ...ATTENTION_STATE,
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
    .map(({ text, pair }) => ({ text, pair: pair ?? null }));
}

const TEXTS = { text: "text", pair: "pair", frozen: "frozen", "frozen-pair": "frozenPair" };
const SWITCH = /^(?:head|attention)-(\d+)(?:\.(\d+))?$/;

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
  const off = SENTENCE_STATE().off;
  const isUpTo = (number, most) => number >= 1 && number <= most;
  for (const name of names) {
    const [found, block, head] = SWITCH.exec(name) || [];
    if (name === "positions") off.positions = true;
    else if (!found) {
      if (name.endsWith("-Add") && layerOf(name, DATA.values)) off.residuals.push(name);
    } else if (!isUpTo(Number(block), DATA.values.L)) continue;
    else if (name.startsWith("attention") && !head) off.attention.push(Number(block));
    else if (isUpTo(Number(head), DATA.values.A)) off.heads.push([Number(block), Number(head)]);
  }
  return off;
}

function sentenceSettings() {
  const start = SENTENCE_STATE();
  const parts = Object.entries(TEXTS)
    .filter(([, key]) => state[key] !== start[key])
    .map(([name, key]) => `${name}=${encodeURIComponent(state[key] ?? "")}`);
  const off = listOff(state.off);
  if (off.length) parts.push(`off=${off.join(",")}`);
  for (const key of ["temperature", "token"]) {
    if (state[key] !== start[key]) parts.push(`${key}=${state[key]}`);
  }
  return [...parts, ...attentionSettings()];
}

function readSentence(view) {
  const read = SENTENCE_STATE();
  for (const [name, key] of Object.entries(TEXTS)) {
    if (view[name] !== undefined) read[key] = decodeText(view[name]);
  }
  read.off = readOff((view.off || "").split(","));
  const temperature = Number(view.temperature);
  if (temperature >= COLDEST && temperature <= HOTTEST) read.temperature = temperature;
  if (/^\d+$/.test(view.token)) read.token = Number(view.token);
  Object.assign(state, read, readAttention(view));
}

function decodeText(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;  // not of this page's making
  }
}
