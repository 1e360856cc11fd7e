// Touch the model: heads, attention, residuals and positions off, a temperature on the softmax.

const COLDEST = 0.1;
const HOTTEST = 10;

const sameHead = (head) => ([block, number]) => block === head[0] && number === head[1];

// What a box's switch switches: {name, label}, the name as in the address; null: it has none.
function switchOf(id) {
  const [, n, head] = /^Encoder-(\d+)-MultiHeadSelfAttention\/head-(\d+)$/.exec(id) || [];
  if (head) return { name: `head-${n}.${head}`, label: `head ${head} of block ${n}` };
  const block = /^Encoder-(\d+)-MultiHeadSelfAttention(?:\/[a-z_]+)?$/.exec(id)?.[1];
  if (block) return { name: `attention-${block}`, label: `attention of block ${block}` };
  const add = /^Encoder-(\d+)-(MultiHeadSelfAttention|FeedForward)-Add$/.exec(id);
  if (add) return { name: id, label: `${add[2] === "FeedForward" ? "feed-forward" : "attention"} residual of block ${add[1]}` };
  return id === "Embedding-Position" ? { name: "positions", label: "positions" } : null;
}

// The label of a name in the list of what is off.
function labelOff(name) {
  const [, block, head] = /^head-(\d+)\.(\d+)$/.exec(name) || [];
  if (head) return `head ${head} of block ${block}`;
  if (name.startsWith("attention-")) return `attention of block ${name.slice(10)}`;
  return switchOf(name === "positions" ? "Embedding-Position" : name).label;
}

const isSwitchedOff = (name) => listOff(state.off).includes(name);

// Whether a box is crossed out in the figure.
function isOff(id) {
  const found = switchOf(id);
  if (!found || !sentenceShown()) return false;
  const attention = /^Encoder-(\d+)-MultiHeadSelfAttention\//.exec(id)?.[1];
  return isSwitchedOff(found.name) || (Boolean(attention) && state.off.attention.includes(Number(attention)));
}

function toggleOff(name) {
  const off = listOff(state.off);
  const was = off.includes(name);
  state.off = readOff(was ? off.filter((other) => other !== name) : [...off, name]);
  modelChanged();
  announce(`${labelOff(name)} is ${was ? "on" : "off"}`);
}

function resetModel() {
  state.off = SENTENCE_STATE().off;
  state.temperature = 1;
  modelChanged();
  announce("The model is as it was trained");
}

function modelChanged() {
  drawChanges();
  drawFigure(drawing());
  rove(null);
  sentenceChanged();
}

// The switches of the chosen box, above the stage.
function drawSwitches() {
  const host = $("switches");
  const found = switchOf(state.chosen);
  const attention = /^Encoder-(\d+)-MultiHeadSelfAttention/.exec(state.chosen)?.[1];
  const buttons = running.model?.canType && found ? [switchButton(found)] : [];
  if (buttons.length && attention && !state.chosen.endsWith("-Add")) buttons.push(temperatureField(), headSwitches(Number(attention)));
  const focused = host.contains(document.activeElement) ? document.activeElement.dataset.switch : null;
  host.replaceChildren(...buttons);
  host.hidden = !buttons.length;
  if (focused) host.querySelector(`[data-switch="${focused}"]`)?.focus();
}

function switchButton({ name, label }) {
  const off = isSwitchedOff(name);
  return button(`Switch ${off ? "on" : "off"}: ${label}`, () => toggleOff(name), {
    class: "small switch", "aria-pressed": String(off), "data-switch": name,
  });
}

function headSwitches(block) {
  return h("div", { class: "head-switches", role: "group", "aria-label": `Heads of block ${block} that are on` },
    h("span", { class: "dim" }, "Heads on"), Array.from({ length: current().A }, (_, place) => headSwitch(block, place + 1)));
}

function headSwitch(block, head) {
  const name = `head-${block}.${head}`;
  return button(String(head), () => toggleOff(name), {
    class: "head-switch", "aria-label": `Head ${head} of block ${block}`, "aria-pressed": String(!isSwitchedOff(name)), "data-switch": name,
  });
}

function temperatureField() {
  const text = () => state.temperature.toFixed(state.temperature < 1 ? 2 : 1);
  const output = h("output", {}, text());
  const slider = h("input", {
    type: "range", min: -1, max: 1, step: 0.02, value: Math.log10(state.temperature), "aria-label": "Temperature of the attention’s softmax",
    "aria-valuetext": text(), "data-switch": "temperature",
    oninput: () => {
      state.temperature = Number((10 ** Number(slider.value)).toFixed(2));
      output.textContent = text();
      slider.setAttribute("aria-valuetext", text());
      drawChanges(slider);
      sentenceChanged();
    },
  });
  return h("label", { class: "temperature", title: "The scores are divided by it before the softmax: low looks at one word, high at all alike" },
    h("span", {}, "Temperature"), slider, output);
}

// All that is changed, in one line with a reset; and the menu of all switches.
function drawChanges(slider) {
  const chips = $("changed");
  const off = listOff(state.off);
  const hot = state.temperature !== 1;
  chips.replaceChildren(...off.slice(0, MOST_CHIPS).map((name) => button(`${labelOff(name)} ×`, () => toggleOff(name), {
    class: "chip off", "aria-label": `Switch on ${labelOff(name)}`,
  })), ...[off.length > MOST_CHIPS ? h("span", { class: "dim" }, `and ${off.length - MOST_CHIPS} more`) : null,
    hot ? button(`temperature ${state.temperature} ×`, () => {
      state.temperature = 1;
      modelChanged();
    }, { class: "chip off", "aria-label": "Set the temperature to 1" }) : null,
    off.length || hot ? button("Reset", resetModel, { class: "small" }) : null].filter(Boolean));
  $("changes-count").textContent = off.length + hot ? ` · ${off.length + hot}` : "";
  if ($("changes").open && !slider) drawSwitchboard();
}

const MOST_CHIPS = 4;

// Every switch, a row a block: attention, both residuals, each head.
function drawSwitchboard() {
  const host = $("switchboard");
  const { L, A } = current();
  const focused = host.contains(document.activeElement) ? document.activeElement.dataset.switch : null;
  const cell = (name, label, told) => h("td", {}, button(label, () => toggleOff(name), {
    class: "head-switch", "aria-label": told, "aria-pressed": String(!isSwitchedOff(name)), "data-switch": name,
  }));
  const rows = Array.from({ length: L }, (_, place) => L - place).map((n) => h("tr", {}, h("th", { scope: "row" }, n),
    cell(`attention-${n}`, "attention", `Attention of block ${n}`),
    ["MultiHeadSelfAttention", "FeedForward"].map((part) => cell(`Encoder-${n}-${part}-Add`, "+", labelOff(`Encoder-${n}-${part}-Add`))),
    Array.from({ length: A }, (_, head) => cell(`head-${n}.${head + 1}`, head + 1, `Head ${head + 1} of block ${n}`))));
  host.replaceChildren(
    h("div", { class: "row" }, h("label", {}, "Positions ", button(state.off.positions ? "off" : "on", () => toggleOff("positions"), {
      class: "head-switch", "aria-label": "Positions", "aria-pressed": String(!state.off.positions), "data-switch": "positions",
    })), temperatureField(), button("Reset", resetModel, { class: "small" })),
    h("div", { class: "boards", tabindex: 0, role: "region", "aria-label": "Switches of every block" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Block", "Attention", "Residuals", "Heads"].map((title, place) =>
        h("th", { scope: "col", colspan: [1, 1, 2, A][place] }, title)))), h("tbody", {}, rows))));
  if (focused) host.querySelector(`[data-switch="${focused}"]`)?.focus();
}
