// Elements, and numbers as text.

const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

// Sets attributes and listeners ("onclick"), and appends children; null and false are left out.
function fill(element, attributes, children = []) {
  const isGiven = (value) => value !== null && value !== undefined && value !== false;
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (isGiven(value)) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(isGiven));
  return element;
}

// An element of HTML or SVG: classes stand behind the tag, as in "p.big"; then attributes, which
// may be left out, and children.
const h = (selector, ...parts) => make((tag) => document.createElement(tag), selector, parts);
const s = (selector, ...parts) => make((tag) => document.createElementNS(SVG, tag), selector, parts);

function make(create, selector, parts) {
  const [tag, ...classes] = selector.split(".");
  const element = create(tag);
  if (classes.length) element.classList.add(...classes);
  const attributes = parts[0]?.constructor === Object ? parts.shift() : {};
  return fill(element, attributes, parts);
}

// A table with titles of columns, if there are any; a row is its title and its cells.
function tableOf(attributes, titles, rows) {
  const head = titles.map((title) => (title ? h("th", { scope: "col" }, title) : h("td")));
  return h("table", attributes,
    titles.length ? h("thead", h("tr", head)) : null,
    h("tbody", rows.map(([title, ...cells]) => h("tr",
      h("th", { scope: "row" }, title),
      cells.map((cell) => (cell.nodeType ? cell : h("td", cell)))))));
}

function button(label, act, attributes = {}) {
  return h("button", { type: "button", onclick: act, ...attributes }, label);
}

const grouped = (number) => number.toLocaleString("en-US");

// As 1.23 M, in steps of 1000 or, for bytes, of 1024.
function short(number, step = 1000, units = ["", "k", "M", "G", "T", "P", "E", "Z", "Y"]) {
  let value = Number(number);
  let place = 0;
  while (value >= step * 0.9995 && place < units.length - 1) {
    value /= step;
    place += 1;
  }
  const digits = place && value < 99.95 ? (value < 9.995 ? 2 : 1) : 0;
  const text = value > 1e6 ? value.toExponential(2) : value.toFixed(digits);
  return units[place] ? `${text} ${units[place]}` : text;
}

const bytes = (number) =>
  short(number, 1024, ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB"]);

const flops = (number) => `${short(number)}FLOPs`.replace(/^([\d.e+]+)FLOPs$/, "$1 FLOPs");

// How each measure is written: in a box, where there is little room, and alone, before its unit.
const inBytes = { text: bytes, short: bytes, alone: bytes };
const UNITS = {
  params: {
    title: "Parameters", noun: "parameters", unit: "parameters", text: grouped, short, alone: grouped,
  },
  flops: { title: "FLOPs", noun: "FLOPs, forward", unit: "forward", text: short, short, alone: flops },
  bytes: { title: "Bytes", noun: "bytes of weights", unit: "of weights", ...inBytes },
  kept: { title: "Activations", noun: "bytes of activations", unit: "of activations", ...inBytes },
};

// An amount of the chosen measure, for screen readers.
function toldAmount(amount) {
  if (!amount && state.measure === "params") return "nothing learned";
  return `${grouped(amount)} ${UNITS[state.measure].noun}`;
}

const share = (part, whole) => (whole ? Number(part) / Number(whole) : 0);

function percent(fraction) {
  const value = fraction * 100;
  if (value === 0) return "0 %";
  if (value > 99.9 && value < 100) return "> 99.9 %";
  return `${value < 0.01 ? "< 0.01" : value.toFixed(value < 1 ? 2 : 1)} %`;
}

// A formula as MathML, in letters or with a configuration's numbers in it.
function formulaMath(formula, inNumbersToo) {
  const config = current();
  const holder = h("template");
  holder.innerHTML = mathml(formula, config, inNumbersToo);
  const text = (inNumbersToo ? inNumbers : formulaText)(formula, config);
  return fill(holder.content.firstChild, { "aria-label": text });
}

// Says to screen readers what others see in the figure and in the panel.
function announce(text) {
  $("status").textContent = text;
}

// A colour of the palette as the page has it now, light or dark.
function colourOf(name) {
  const hidden = $("status");
  hidden.style.color = `var(--${name})`;
  return getComputedStyle(hidden).color;
}
