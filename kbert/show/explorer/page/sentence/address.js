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
  const recorded = live?.place === "recorded" && live.recordings?.[0]?.request;
  if (recorded) return { text: recorded.text, pair: recorded.pair ?? null };
  return { text: live?.sentences?.[0] || "", pair: null };
}

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
