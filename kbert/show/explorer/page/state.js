// What is shown: one or two configurations, what is open and chosen, the numbers in the figure; kept
// in the URL's fragment.

const generic = Boolean(DATA.generic);
const live = DATA.live || null;  // a sentence and the model that it goes through
const LETTERS = generic ? [] : [...Object.keys(DATA.letters), "dtype"];

const state = {
  configs: generic ? [] : [{ ...DATA.values }],
  active: 0,
  open: 0,             // the encoder block that is open
  attention: false,    // whether its attention is
  chosen: "",          // a layer, a part of one, "encoder", or nothing
  measure: "params",
  chapter: "",         // of the tour
  // with a sentence, also what page/sentence/address.js lists
};

// The last configuration of each column that makes sense: what is drawn and counted.
const sensible = [];

const current = () => sensible[state.active];
const modelName = () => (generic ? DATA.title : nameOf(current()));

function settle() {
  state.configs.forEach((config, place) => {
    if (!Object.keys(problems(config)).length) sensible[place] = { ...config };
    else if (!sensible[place]) sensible[place] = { ...DATA.values };
  });
  sensible.length = state.configs.length;
  if (generic) return;
  if (state.open > current().L) state.open = 0;
  const layer = layerOf(state.chosen, current());
  if (state.chosen !== "encoder" && !layer) state.chosen = "";
}

// Opens what a chosen layer is in.
function choose(id) {
  state.chosen = id;
  const layer = generic || id === "encoder" ? null : layerOf(id, current());
  if (layer && layer.n) state.open = layer.n;
  if (layer && layer.part) state.attention = true;
}

function toFragment() {
  const parts = [encodeURIComponent(state.chosen)];
  state.configs.forEach((config, place) => {
    const start = place ? DATA.values : {};
    for (const letter of LETTERS) {
      const base = place ? start[letter] : DATA.values[letter];
      if (config[letter] !== base && !Number.isNaN(config[letter])) {
        parts.push(`${place ? "b." : ""}${letter}=${config[letter] ?? "none"}`);
      }
    }
    if (place && parts.every((part) => !part.startsWith("b."))) parts.push("b.=");
  });
  const within = state.chosen.startsWith(`Encoder-${state.open}-`);
  if (state.open && !within) parts.push(`open=${state.open}`);
  if (state.open && state.attention && !(within && state.chosen.includes("/"))) parts.push("attention=open");
  if (state.active) parts.push("drawn=B");
  if (state.measure !== "params") parts.push(`measure=${state.measure}`);
  if (state.chapter) parts.push(`chapter=${state.chapter}`);
  if (live) parts.push(...sentenceSettings());
  const text = parts.join("&");
  return text === "" ? "" : `#${text}`;
}

function fromFragment(fragment) {
  const [id, ...settings] = fragment.replace(/^#/, "").split("&");
  if (!generic) {
    const configs = [{ ...DATA.values }];
    const view = Object.fromEntries(settings.map((one) => one.split("=")));
    for (const [name, value] of Object.entries(view)) readSetting(configs, name, value);
    state.configs = configs;
    state.open = Number(view.open) || 0;
    state.attention = view.attention === "open";
    state.active = view.drawn === "B" && configs[1] ? 1 : 0;
    state.measure = MEASURES.includes(view.measure) ? view.measure : "params";
    state.chapter = Object.hasOwn(CHAPTERS, view.chapter) ? view.chapter : "";
    if (live) readSentence(view);
  }
  settle();
  let name = id;
  try {
    name = decodeURIComponent(id);
  } catch {
    // not of this page's making: looked for as it stands
  }
  const known = generic ? DATA.generic.rows.some((row) => row.name === name)
    : name === "encoder" || layerOf(name, current());
  if (known) choose(name);
  else state.chosen = "";
}

function readSetting(configs, name, value) {
  const second = name.startsWith("b.");
  const letter = second ? name.slice(2) : name;
  if (second && !configs[1]) configs[1] = { ...DATA.values };
  if (!LETTERS.includes(letter) || value === undefined) return;
  const config = configs[second ? 1 : 0];
  if (letter === "dtype") {
    if (Object.hasOwn(DATA.dtypes, value)) config.dtype = value;
  } else {
    config[letter] = letter === "M" && value === "none" ? null : Number(value);
  }
}

// A new entry of the history for a new layer; none in a frame, whose history is the notebook's.
function keepInUrl(step) {
  const fragment = toFragment();
  if (fragment === location.hash) return;
  const framed = window.self !== window.top;
  try {
    const url = fragment || location.href.split("#")[0];
    if (step && !framed) history.pushState(null, "", url);
    else history.replaceState(null, "", url);
  } catch {
    // some frames have no address of their own: nothing to keep
  }
}
