// What is shown: one or two configurations, what is open and chosen, the numbers in the figure;
// kept in the URL's fragment.

const live = DATA.live || null;  // a sentence and the model that it goes through
const LETTERS = [...Object.keys(DATA.letters), "dtype"];

const state = {
  configs: [{ ...DATA.values }],
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

// What they come to, and short ways to ask for what is drawn.
const counts = [];
const countsNow = () => counts[state.active];
const layerNow = (id) => layerOf(id, current());
const shapeNow = (shape) => shapeOf(shape, current());

function settle() {
  state.configs.forEach((config, place) => {
    if (!Object.keys(problems(config)).length) sensible[place] = { ...config };
    else if (!sensible[place]) sensible[place] = { ...DATA.values };
  });
  sensible.length = state.configs.length;
  counts.splice(0, 2, ...sensible.map(count));
  if (state.open > current().L) state.open = 0;
  if (!isKnown(state.chosen)) state.chosen = "";
}

function isKnown(id) {
  return Boolean(layerNow(id)) || (id === "encoder" && !generic);
}

// Opens what a chosen layer is in.
function choose(id) {
  state.chosen = id;
  const layer = layerNow(id);
  if (layer?.n) state.open = layer.n;
  if (layer?.part) state.attention = true;
}

function toFragment() {
  const parts = [encodeURIComponent(state.chosen)];
  state.configs.forEach((config, place) => {
    const changed = LETTERS.filter((letter) =>
      config[letter] !== DATA.values[letter] && !Number.isNaN(config[letter]));
    const prefix = place ? "b." : "";
    parts.push(...changed.map((letter) => `${prefix}${letter}=${config[letter] ?? "none"}`));
    if (place && !changed.length) parts.push("b.=");
  });

  const within = state.chosen.startsWith(`Encoder-${state.open}-`);
  const part = within && state.chosen.includes("/");
  if (state.open && !within) parts.push(`open=${state.open}`);
  if (state.open && state.attention && !part) parts.push("attention=open");
  if (state.active) parts.push("drawn=B");
  if (state.measure !== "params") parts.push(`measure=${state.measure}`);
  if (state.chapter) parts.push(`chapter=${state.chapter}`);
  if (live) parts.push(...sentenceSettings());
  // nothing chosen is more than nothing where the page begins with something
  const text = parts.join("&") || (DATA.start ? "-" : "");
  return text && `#${text}`;
}

function fromFragment(fragment) {
  const [id, ...settings] = fragment.replace(/^#/, "").split("&");
  const view = generic ? {} : Object.fromEntries(settings.map((one) => one.split("=")));
  const configs = [{ ...DATA.values }];
  for (const [name, value] of Object.entries(view)) readSetting(configs, name, value);
  Object.assign(state, {
    configs,
    open: /^\d+$/.test(view.open) ? Number(view.open) : 0,
    attention: view.attention === "open",
    active: view.drawn === "B" && configs[1] ? 1 : 0,
    measure: MEASURES.includes(view.measure) ? view.measure : "params",
    chapter: Object.hasOwn(CHAPTERS, view.chapter) ? view.chapter : "",
  });
  if (live) readSentence(view);
  settle();
  const name = decodeName(id);
  choose(isKnown(name) ? name : "");
}

function decodeName(id) {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;  // not of this page's making: looked for as it stands
  }
}

function readSetting(configs, name, value) {
  const second = name.startsWith("b.");
  const letter = second ? name.slice(2) : name;
  if (second && !configs[1]) configs[1] = { ...DATA.values };
  if (!LETTERS.includes(letter) || value === undefined) return;
  const config = configs[second ? 1 : 0];
  if (letter !== "dtype") config[letter] = letter === "M" && value === "none" ? null : Number(value);
  else if (Object.hasOwn(DATA.dtypes, value)) config.dtype = value;
}

// A new entry of the history for a new layer; none in a frame, whose history is the notebook's.
function keepInUrl(step) {
  const fragment = toFragment();
  if (fragment === location.hash) return;
  const url = fragment || location.href.split("#")[0];
  try {
    if (step && window.self === window.top) history.pushState(null, "", url);
    else history.replaceState(null, "", url);
  } catch {
    // some frames have no address of their own: nothing to keep
  }
}
