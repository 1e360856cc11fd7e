// Elements, numbers as text, formulas as MathML.

const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const h = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// A formula in letters, or with a configuration's numbers in it.
function formulaMath(formula, config, inNumbersToo) {
  const letters = lettersOf(config);
  const number = (letter) => `<mn>${grouped(letters[letter])}</mn>`;
  let text = MATHML[formula].replace(/<mi>([GK])<\/mi>/g, (_, letter) => number(letter));
  if (inNumbersToo) {
    text = text
      .replace(/<mfrac>.*?<\/mfrac>/g, `<mn>${grouped(letters.H / letters.A)}</mn>`)
      .replace(/<mi>([A-Za-z]+)<\/mi>/g, (_, letter) => number(letter));
  }
  const holder = document.createElement("template");
  holder.innerHTML = text;
  const math = holder.content.firstChild;
  math.setAttribute("aria-label", inNumbersToo
    ? inNumbers(formula, config) : formulaText(formula, config));
  return math;
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

// How each measure is written; `alone` and `unit` where no title stands beside the number.
const UNITS = {
  params: { title: "Parameters", noun: "parameters", unit: "parameters", alone: grouped, text: grouped, short: (n) => short(n) },
  flops: {
    title: "FLOPs", noun: "FLOPs, forward", unit: "forward", alone: flops,
    text: (n) => short(n), short: (n) => short(n),
  },
  bytes: {
    title: "Bytes", noun: "bytes of weights", unit: "of weights", alone: bytes, text: bytes, short: bytes,
  },
  kept: {
    title: "Activations", noun: "bytes of activations, kept for the backward pass",
    unit: "of activations", alone: bytes,
    text: bytes, short: bytes,
  },
};

function share(part, whole) {
  return whole ? Number(part) / Number(whole) : 0;
}

function percent(fraction) {
  const value = fraction * 100;
  if (value === 0) return "0 %";
  if (value > 99.9 && value < 100) return "> 99.9 %";
  return `${value < 0.01 ? "< 0.01" : value.toFixed(value < 1 ? 2 : 1)} %`;
}

function button(label, act, attributes = {}) {
  return h("button", { type: "button", onclick: act, ...attributes }, label);
}

// Says to screen readers what others see in the figure and in the panel.
function announce(text) {
  $("status").textContent = text;
}
