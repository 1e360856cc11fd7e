// Sliders and fields: one column a configuration.

const SLIDERS = {
  L: { least: 1, most: 48 },
  H: { least: 64, most: 8192, logarithmic: true },
  A: { least: 1, most: 128, logarithmic: true },
  FFD: { least: 64, most: 32768, logarithmic: true },
  T: { least: 1000, most: 300000, logarithmic: true },
  P: { least: 16, most: 8192, logarithmic: true },
  G: { least: 1, most: 8 },
  S: { least: 1, most: 8192, logarithmic: true },
  B: { least: 1, most: 4096, logarithmic: true },
  M: { least: 0, most: 8192 },
  K: { least: 2, most: 1000, logarithmic: true },
};
const STEPS = 1000;
const COLUMNS = ["A", "B"];

const comparing = () => state.configs.length > 1;
const fieldId = (place, letter) => `${COLUMNS[place]}-${letter}`;

function rangeOf(letter, config) {
  const { least, most, logarithmic } = SLIDERS[letter];
  const upper = letter === "S" ? positionsOf(config) : letter === "M" ? config.S : most;
  return { least, most: Math.max(Number.isInteger(upper) ? upper : most, least + 1), logarithmic };
}

function fromSlider(letter, position, config) {
  const { least, most, logarithmic } = rangeOf(letter, config);
  const part = position / STEPS;
  const value = logarithmic ? least * (most / least) ** part : least + (most - least) * part;
  return snapped(letter, value, config);
}

function toSlider(letter, value, config) {
  const { least, most, logarithmic } = rangeOf(letter, config);
  const inside = Math.min(Math.max(value || least, least), most);
  const part = logarithmic ? Math.log(inside / least) / Math.log(most / least) : (inside - least) / (most - least);
  return Math.round(part * STEPS);
}

// A value that makes sense with the others, near one that the slider stands for.
function snapped(letter, value, config) {
  const nearest = (step) => Math.max(step, Math.round(value / step) * step);
  if (letter === "H") return nearest(8 % config.A ? config.A : 8);
  if (letter === "A") {
    return divisors(config.H).reduce((best, one) => (Math.abs(one - value) < Math.abs(best - value) ? one : best));
  }
  if (letter === "FFD") return nearest(64);
  if (letter === "T") return Number(value.toPrecision(3));
  if (letter === "M") return Math.round(value) || null;
  return Math.max(1, Math.round(value));
}

// Sets a value; what hangs on it follows: FFD = 4·H while that is so, S and M within P and S.
function setValue(place, letter, value, bySlider) {
  const config = state.configs[place];
  const follows = config.FFD === 4 * config.H;
  config[letter] = value;
  if (letter === "H" && follows && value > 0) config.FFD = 4 * value;
  if (bySlider && letter === "P") config.S = Math.min(config.S, positionsOf(config));
  if (bySlider && config.M) config.M = Math.min(config.M, config.S);
  state.active = place;
  render("values");
}

function typed(letter, text) {
  if (letter === "M" && text.trim() === "") return null;
  return text.trim() === "" ? NaN : Number(text);
}

function buildFields() {
  const letters = Object.keys(DATA.letters);
  $("fields").replaceChildren(presetRow(), ...letters.map(fieldRow), dtypeRow());
  $("fields").classList.toggle("two", comparing());
  $("compare").textContent = comparing() ? "Only one" : "Compare";
  $("compare").setAttribute("aria-pressed", String(comparing()));
}

function presetRow() {
  const selects = state.configs.map((_, place) => h("select", {
    id: fieldId(place, "preset"), "aria-label": `Preset of ${COLUMNS[place]}`,
    onchange: (event) => applyPreset(place, event.target.value),
  }, h("option", { value: "" }, "preset …"), Object.keys(DATA.presets).map((name) => h("option", { value: name }, name))));
  const names = comparing() ? state.configs.map((_, place) => button(COLUMNS[place], () => {
    state.active = place;
    render("values");
  }, { class: "column", "data-column": place, title: "Draw this one" })) : [];
  return h("div", { class: "field presets" }, h("span", { class: "label" }, comparing() ? "Drawn" : "Preset"),
    names.length ? h("div", { class: "inputs columns" }, names) : null, h("div", { class: "inputs" }, selects));
}

function applyPreset(place, name) {
  if (!name) return;
  state.configs[place] = withPreset(state.configs[place], name);
  state.active = place;
  render("values");
  announce(`${name}: ${grouped(count(current()).total.params)} parameters`);
}

// A configuration with a preset's sizes, and no longer texts than these allow.
function withPreset(config, name) {
  const changed = { ...config, ...DATA.presets[name] };
  changed.S = Math.min(changed.S || positionsOf(changed), positionsOf(changed));
  if (changed.M) changed.M = Math.min(changed.M, changed.S);
  return changed;
}

function fieldRow(letter) {
  const { title } = DATA.letters[letter];
  const hint = letter === "M" ? "; empty: every position" : "";
  const numbers = state.configs.map((_, place) => h("input", {
    type: "text", inputmode: "numeric", autocomplete: "off", id: fieldId(place, letter), "data-letter": letter,
    placeholder: letter === "M" ? "all" : null,
    "aria-label": comparing() ? `${title} of ${COLUMNS[place]}${hint}` : null,
    "aria-describedby": `error-${letter}`,
    oninput: (event) => setValue(place, letter, typed(letter, event.target.value), false),
  }));
  const slider = h("input", {
    type: "range", min: 0, max: STEPS, id: `slider-${letter}`, "aria-label": `${title}, slider`,
    oninput: (event) => {
      const place = state.active;
      setValue(place, letter, fromSlider(letter, Number(event.target.value), state.configs[place]), true);
    },
  });
  return h("div", { class: "field", "data-letter": letter },
    h("label", { for: fieldId(0, letter) }, h("b", {}, letter), ` ${title}`),
    h("div", { class: "inputs" }, numbers), slider, h("p", { class: "error", id: `error-${letter}`, role: "alert" }));
}

function dtypeRow() {
  const selects = state.configs.map((_, place) => h("select", {
    id: fieldId(place, "dtype"), "aria-label": comparing() ? `dtype of ${COLUMNS[place]}` : null,
    onchange: (event) => setValue(place, "dtype", event.target.value, false),
  }, Object.keys(DATA.dtypes).map((name) => h("option", { value: name }, name))));
  return h("div", { class: "field", "data-letter": "dtype" },
    h("label", { for: fieldId(0, "dtype") }, "dtype"), h("div", { class: "inputs" }, selects));
}

function drawFields() {
  state.configs.forEach((config, place) => drawColumn(config, place));
  const config = sensible[state.active];
  for (const letter of Object.keys(DATA.letters)) {
    const wrong = state.configs.map((one) => problems(one)[letter]).filter(Boolean);
    const error = $(`error-${letter}`);
    if (error.textContent !== (wrong[0] || "")) error.textContent = wrong[0] || "";
    const slider = $(`slider-${letter}`);
    if (document.activeElement !== slider) slider.value = toSlider(letter, config[letter], config);
    slider.setAttribute("aria-valuetext", config[letter] ? grouped(config[letter]) : "every position");
  }
}

function drawColumn(config, place) {
  const wrong = problems(config);
  for (const letter of Object.keys(DATA.letters)) {
    const input = $(fieldId(place, letter));
    const text = config[letter] === null || Number.isNaN(config[letter]) ? "" : String(config[letter]);
    if (document.activeElement !== input) input.value = text;
    input.setAttribute("aria-invalid", String(Boolean(wrong[letter])));
    input.classList.toggle("other", comparing() && state.configs[0][letter] !== state.configs[1][letter]);
  }
  $(fieldId(place, "dtype")).value = config.dtype;
  $(fieldId(place, "preset")).value = presetOf(config) || "";
  document.querySelectorAll(".column").forEach((one) =>
    one.setAttribute("aria-pressed", String(Number(one.dataset.column) === state.active)));
}

// The preset beside which a configuration is compared: the next larger one; beside the largest, the one below.
function otherPreset(config) {
  const paramsOf = (values) => count(values).total.params;
  const size = paramsOf(config);
  const models = Object.keys(DATA.presets).filter((name) => !name.includes("_"))  // not the variants of one size
    .map((name) => ({ name, params: paramsOf(withPreset(config, name)) }))
    .sort((a, b) => (a.params < b.params ? -1 : 1));
  const larger = models.find(({ params }) => params > (size * 11n) / 10n);
  return (larger || models.findLast(({ params }) => params < size) || models.at(-1))?.name || "";
}

function toggleCompare() {
  if (comparing()) {
    state.configs = [state.configs[state.active]];
    sensible.splice(0, 2, sensible[state.active]);
    state.active = 0;
  } else {
    // beside something else: what the page was made of, or the next larger of BERT's models
    state.configs.push(changedSizes(sensible[0]).length ? { ...DATA.values } : withPreset(sensible[0], otherPreset(sensible[0])));
  }
  cards = false;  // its card has been followed
  settle();
  buildFields();
  render("values");
}

function resetFields() {
  state.configs = [{ ...DATA.values }];
  state.active = 0;
  settle();
  buildFields();
  render("values");
}
