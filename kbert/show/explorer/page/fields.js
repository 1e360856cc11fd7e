// Sliders and fields: one column a configuration.

const STEPS = 1000;  // of a slider; each multiplies
const COLUMNS = ["A", "B"];

const comparing = () => state.configs.length > 1;
const fieldId = (place, letter) => `${COLUMNS[place]}-${letter}`;

function rangeOf(letter, config) {
  const [least, most] = DATA.letters[letter].range;
  const upper = { S: positionsOf(config), M: config.S }[letter];
  return [least, Math.max(upper || most, least + 1)];
}

// Of M, the slider's left end is "every position".
function fromSlider(letter, position, config) {
  const [least, most] = rangeOf(letter, config);
  if (letter === "M" && position === 0) return null;
  return snapped(letter, least * (most / least) ** (position / STEPS), config);
}

function toSlider(letter, value, config) {
  const [least, most] = rangeOf(letter, config);
  const inside = Math.min(Math.max(value || least, least), most);
  return Math.round(STEPS * Math.log(inside / least) / Math.log(most / least));
}

// A value that makes sense with the others, near one that the slider stands for.
function snapped(letter, value, config) {
  const nearest = (step) => Math.max(step, Math.round(value / step) * step);
  if (letter === "A") return nearestDivisors(config.H, value)[0];
  if (letter === "H") return nearest(8 % config.A ? config.A : 8);
  if (letter === "FFD") return nearest(64);
  return letter === "T" ? Number(value.toPrecision(3)) : nearest(1);
}

// Sets a value; what hangs on it follows: FFD = 4·H while that is so, S and M within P and S.
function setValue(place, letter, value, bySlider) {
  const config = state.configs[place];
  const follows = config.FFD === 4 * config.H;
  config[letter] = value;
  if (letter === "H" && follows && value > 0) config.FFD = 4 * value;
  if (bySlider) fitLengths(config);
  drawColumnOf(place);
}

// No longer texts than there are positions, and no more predictions than tokens.
function fitLengths(config) {
  config.S = Math.min(config.S || positionsOf(config), positionsOf(config));
  if (config.M) config.M = Math.min(config.M, config.S);
}

function drawColumnOf(place) {
  state.active = place;
  render("values");
}

function typed(letter, text) {
  if (text.trim() === "") return letter === "M" ? null : NaN;
  return Number(text);
}

function buildFields() {
  const dtypes = Object.keys(DATA.dtypes);
  $("fields").replaceChildren(
    comparing() ? columnRow() : "",
    selectRow("preset", "Preset", ["", ...Object.keys(DATA.presets)], applyPreset),
    ...Object.keys(DATA.letters).map(fieldRow),
    selectRow("dtype", "dtype", dtypes, (place, name) => setValue(place, "dtype", name)));
  $("fields").classList.toggle("two", comparing());
  $("compare").textContent = comparing() ? "Only one" : "Compare";
  $("compare").ariaPressed = comparing();
}

// Which of two configurations is drawn.
function columnRow() {
  const choices = COLUMNS.map((name, place) => button(name, () => drawColumnOf(place), {
    class: "column", "data-column": place, title: "Draw this one",
  }));
  return h("div.field", h("span.label", "Drawn"), h("div.inputs", choices));
}

function selectRow(name, title, options, choose) {
  const selects = state.configs.map((_, place) => h("select", {
    id: fieldId(place, name), "aria-label": `${title} of ${COLUMNS[place]}`,
    onchange: (event) => choose(place, event.target.value),
  }, options.map((value) => h("option", { value }, value || `${name} …`))));
  return h("div.field.select", h("label", { for: fieldId(0, name) }, title),
    h("div.inputs", selects));
}

function fieldRow(letter) {
  const { title } = DATA.letters[letter];
  const every = letter === "M" ? "; empty: every position" : "";
  const numbers = state.configs.map((_, place) => h("input", {
    type: "text", inputmode: "numeric", autocomplete: "off", id: fieldId(place, letter),
    placeholder: every ? "all" : null,
    "aria-label": comparing() ? `${title} of ${COLUMNS[place]}${every}` : null,
    "aria-describedby": `error-${letter}`,
    oninput: (event) => setValue(place, letter, typed(letter, event.target.value)),
  }));
  const slider = h("input", {
    type: "range", min: 0, max: STEPS, id: `slider-${letter}`, "aria-label": `${title}, slider`,
    oninput: (event) => {
      const { active, configs } = state;
      const value = fromSlider(letter, Number(event.target.value), configs[active]);
      setValue(active, letter, value, true);
    },
  });
  return h("div.field",
    h("label", { for: fieldId(0, letter) }, h("b", letter), ` ${title}`),
    h("div.inputs", numbers), slider,
    h("p.error", { id: `error-${letter}`, role: "alert" }));
}

function applyPreset(place, name) {
  if (!name) return;
  state.configs[place] = withPreset(state.configs[place], name);
  drawColumnOf(place);
  announce(`${name}: ${grouped(countsNow().total.params)} parameters`);
}

function withPreset(config, name) {
  const changed = { ...config, ...DATA.presets[name] };
  fitLengths(changed);
  return changed;
}

function drawFields() {
  const config = current();
  const wrong = state.configs.map(problems);
  const setUnlessTyped = (field, value) => {
    if (document.activeElement !== field) field.value = value;
  };
  for (const letter of Object.keys(DATA.letters)) {
    state.configs.forEach(({ [letter]: value }, place) => {
      const input = $(fieldId(place, letter));
      setUnlessTyped(input, Number.isNaN(value) ? "" : value ?? "");
      input.ariaInvalid = Boolean(wrong[place][letter]);
      input.classList.toggle("other", state.configs.some((other) => other[letter] !== value));
    });
    const error = wrong.map((found) => found[letter]).find(Boolean) || "";
    if ($(`error-${letter}`).textContent !== error) $(`error-${letter}`).textContent = error;
    const slider = $(`slider-${letter}`);
    setUnlessTyped(slider, toSlider(letter, config[letter], config));
    slider.ariaValueText = config[letter] ? grouped(config[letter]) : "every position";
  }
  state.configs.forEach((one, place) => {
    $(fieldId(place, "dtype")).value = one.dtype;
    $(fieldId(place, "preset")).value = presetOf(one) || "";
  });
  document.querySelectorAll(".column").forEach((one, place) =>
    (one.ariaPressed = place === state.active));
}

// The preset beside which a configuration is compared: the next larger one, or else the one below;
// not a variant of one size (base_cased).
function otherPreset(config) {
  const paramsOf = (values) => count(values).total.params;
  const size = paramsOf(config);
  const models = Object.keys(DATA.presets).filter((name) => !name.includes("_"))
    .map((name) => ({ name, params: paramsOf(withPreset(config, name)) }))
    .sort((a, b) => Number(a.params - b.params));
  const larger = models.find(({ params }) => params > (size * 11n) / 10n);
  return (larger || models.findLast(({ params }) => params < size) || models.at(-1))?.name || "";
}

// Beside something else stands what the page was made of; beside that, the next larger preset.
function toggleCompare() {
  const { configs, active } = state;
  const [first] = sensible;
  const other = changedSizes(first).length ? { ...DATA.values }
    : withPreset(first, otherPreset(first));
  cards = false;  // its card has been followed
  setConfigs(comparing() ? [configs[active]] : [...configs, other]);
}

const resetFields = () => setConfigs([{ ...DATA.values }]);

function setConfigs(configs) {
  if (configs.length < state.configs.length) sensible.splice(0, 2, current());
  state.configs = configs;
  state.active = 0;
  settle();
  buildFields();
  render("values");
}
