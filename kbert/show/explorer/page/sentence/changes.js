// Touch the model: heads, attention, residuals and positions off, a temperature on the softmax.

const COLDEST = 0.1;
const HOTTEST = 10;
// A switch has the name of what it switches off: a head, an attention, a residual, the positions.
const SWITCH =
  /^(?:Embedding-Position|Encoder-(\d+)-(?:\w+-Add|MultiHeadSelfAttention(?:\/head-(\d+))?))$/;

function readTemperature(text) {
  const temperature = Number(text);
  return temperature >= COLDEST && temperature <= HOTTEST ? temperature : 1;
}

// The names in a text of the switches that the page's model has.
function readOff(text) {
  const isKnownSwitch = (name) => SWITCH.test(name) && Boolean(layerOf(name, DATA.values)) &&
    !/-0/.test(name);  // no number begins with it
  return [...new Set(text.split(","))].filter(isKnownSwitch);
}

// What is off, as a request says it: live/client.js.
function requestOff(names) {
  const off = { heads: [], attention: [], residuals: [], positions: false };
  for (const name of names) {
    const [, block, head] = SWITCH.exec(name);
    if (!block) off.positions = true;
    else if (name.endsWith("-Add")) off.residuals.push(name);
    else if (head) off.heads.push([Number(block), Number(head)]);
    else off.attention.push(Number(block));
  }
  return off;
}

// The switch of a box; that of an attention's parts is the attention's.
function switchOf(id = "") {
  const name = id.replace(/\/(?!head-)[a-z_]+$/, "");
  return SWITCH.test(name) ? name : null;
}

function labelOff(name) {
  const [, block, head] = SWITCH.exec(name);
  if (!block) return "positions";
  if (head) return `head ${head} of block ${block}`;
  const what = name.includes("FeedForward") ? "feed-forward" : "attention";
  return `${what}${name.endsWith("-Add") ? " residual" : ""} of block ${block}`;
}

const isSwitchedOff = (name) => state.off.includes(name);

// Whether a box is crossed out in the figure; the heads are, where their attention is off.
function isOff(id) {
  const name = switchOf(id);
  if (!name || !sentenceShown()) return false;
  return isSwitchedOff(name) || isSwitchedOff(name.replace(/\/head-\d+$/, ""));
}

function toggleOff(name) {
  const was = isSwitchedOff(name);
  state.off = was ? state.off.filter((other) => other !== name) : [...state.off, name];
  modelChanged();
  announce(`${labelOff(name)} is ${was ? "on" : "off"}`);
}

function resetModel() {
  state.off = [];
  state.temperature = 1;
  modelChanged();
  announce("The model is as it was trained");
}

function modelChanged() {
  $("switches").dataset.of = "";
  redrawFigure();
  sentenceChanged();
}

// The switches of the chosen box; those that stay are not drawn again under a hand.
function drawSwitches() {
  const host = $("switches");
  const name = running.model?.canType ? switchOf(state.chosen) : null;
  host.hidden = !name;
  const of = JSON.stringify([name, state.off]);
  if (host.dataset.of === of) return;
  const { activeElement } = document;
  const focused = host.contains(activeElement) ? activeElement.dataset.switch : null;
  host.dataset.of = of;
  host.replaceChildren();
  if (!name) return;
  const text = `Switch ${isSwitchedOff(name) ? "on" : "off"}: ${labelOff(name)}`;
  host.append(switchButton(name, text, { "aria-pressed": null }));
  const [attention] = /^Encoder-\d+-MultiHeadSelfAttention(?!-)/.exec(name) || [];
  if (attention) host.append(temperatureField(), headSwitches(attention));
  if (focused) host.querySelector(`[data-switch="${focused}"]`)?.focus();
}

const switchButton = (name, text, attributes) => button(text, () => toggleOff(name), {
  class: "small", "data-switch": name, "aria-pressed": String(!isSwitchedOff(name)), ...attributes,
});

function headSwitches(attention) {
  return h("div.head-switches", { role: "group", "aria-label": "Heads that are on" },
    h("span.dim", "Heads on"),
    Array.from({ length: current().A }, (_, n) => {
      const name = `${attention}/head-${n + 1}`;
      return switchButton(name, n + 1, { "aria-label": labelOff(name) });
    }));
}

function temperatureField() {
  const output = h("output", state.temperature);
  const slider = h("input", {
    type: "range", min: -1, max: 1, step: 0.02, value: Math.log10(state.temperature),
    "aria-label": "Temperature of the attention’s softmax", "data-switch": "temperature",
    oninput: () => {
      state.temperature = Number((10 ** Number(slider.value)).toFixed(2));
      output.textContent = state.temperature;
      slider.setAttribute("aria-valuetext", state.temperature);
      sentenceChanged();
    },
  });
  const title = "The scores are divided by it before the softmax: " +
    "low looks at one word, high at all alike";
  return h("label.temperature", { title }, h("span", "Temperature"), slider, output);
}

function drawChanges() {
  const changed = state.off.map((name) => `${labelOff(name)} off`);
  if (state.temperature !== 1) changed.push(`temperature ${state.temperature}`);
  $("changed").hidden = !changed.length;
  $("changed").replaceChildren(h("span", `Changed: ${changed.join(", ")} `),
    button("Reset", resetModel, { class: "small" }));
}
