// Touch the model: heads, attention, residuals and positions off, a temperature on the softmax.

const COLDEST = 0.1;
const HOTTEST = 10;
// A switch has a name: head-2.3 (block, head), attention-4, positions, or a residual's layer.
const SWITCH = /^(?:head|attention)-(\d+)(?:\.(\d+))?$/;

function readTemperature(text) {
  const temperature = Number(text);
  return temperature >= COLDEST && temperature <= HOTTEST ? temperature : 1;
}

// The names in a text of the switches that the page's model has.
function readOff(text) {
  const isUpTo = (number, most) => number >= 1 && number <= most;
  return [...new Set(text.split(","))].filter((name) => {
    if (/-0/.test(name)) return false;  // no number begins with it
    const [found, block, head] = SWITCH.exec(name) || [];
    if (!found) return name === "positions" || /-Add$/.test(name) && Boolean(layerOf(name, DATA.values));
    const fits = name.startsWith("head") ? isUpTo(head, DATA.values.A) : !head;
    return fits && isUpTo(block, DATA.values.L);
  });
}

// What is off, as a request says it: live/client.js.
function requestOff(names) {
  const placesOf = (kind) => names.filter((name) => name.startsWith(kind))
    .map((name) => SWITCH.exec(name).slice(1).map(Number));
  return {
    heads: placesOf("head-"), attention: placesOf("attention-").map(([block]) => block),
    residuals: names.filter((name) => name.endsWith("-Add")), positions: names.includes("positions"),
  };
}

function switchOf(id) {
  const part = /^Encoder-(\d+)-MultiHeadSelfAttention(?:\/head-(\d+)|\/[a-z_]+)?$/;
  const [, block, head] = part.exec(id) || [];
  if (block) return head ? `head-${block}.${head}` : `attention-${block}`;
  if (/^Encoder-\d+-\w+-Add$/.test(id)) return id;
  return id === "Embedding-Position" ? "positions" : null;
}

function labelOff(name) {
  const [, block, head] = SWITCH.exec(name) || [];
  if (head) return `head ${head} of block ${block}`;
  if (block) return `attention of block ${block}`;
  if (name === "positions") return name;
  const [, number, layer] = /^Encoder-(\d+)-(\w+)-Add$/.exec(name);
  return `${layer === "FeedForward" ? "feed-forward" : "attention"} residual of block ${number}`;
}

const isSwitchedOff = (name) => state.off.includes(name);

// Whether a box is crossed out in the figure; the heads are, where their attention is off.
function isOff(id) {
  const name = switchOf(id);
  if (!name || !sentenceShown()) return false;
  return isSwitchedOff(name) || isSwitchedOff(name.replace(/^head-(\d+)\.\d+$/, "attention-$1"));
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
  const [, block] = SWITCH.exec(name) || [];
  if (block) host.append(temperatureField(), headSwitches(block));
  if (focused) host.querySelector(`[data-switch="${focused}"]`)?.focus();
}

const switchButton = (name, text, attributes) => button(text, () => toggleOff(name), {
  class: "small", "data-switch": name, "aria-pressed": String(!isSwitchedOff(name)), ...attributes,
});

function headSwitches(block) {
  return h("div.head-switches", { role: "group", "aria-label": "Heads that are on" },
    h("span.dim", "Heads on"),
    Array.from({ length: current().A }, (_, n) => switchButton(`head-${block}.${n + 1}`, n + 1,
      { "aria-label": `Head ${n + 1} of block ${block}` })));
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
