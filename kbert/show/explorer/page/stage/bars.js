// Bars beside names, and curves: what is not a heat map.

const percentSigned = (part) => `${part < 0 ? "−" : ""}${percent(Math.abs(part))}`;

// Rows of {name, value, text, under, isChosen}; the longest bar is the largest value.
function barTable(rows, most = Math.max(...rows.map((row) => Math.abs(row.value)), 1e-9)) {
  return h("ul", { class: "bars" }, rows.map((row) => h("li", { class: row.isChosen ? "bar-chosen" : null },
    h("span", { class: "bar-name" }, row.name),
    h("span", { class: "bar-track", "aria-hidden": "true" }, h("i", {
      class: row.value < 0 ? "bar-minus" : "bar-plus", style: `width:${(Math.min(1, Math.abs(row.value) / most) * 100).toFixed(2)}%`,
    })),
    h("span", { class: "bar-value" }, row.text),
    row.under ? h("span", { class: "bar-under dim" }, row.under) : null)));
}

// A bar per token; of a long text the chosen one and the largest.
function tokenBars(tokens, token, values, textOf) {
  const shown = tokens.length <= 24 ? tokens.map((_, n) => n) : [...new Set([token, ...largestIndices(values, 20)])];
  return barTable(shown.map((n) => ({ name: tokens[n].text, value: values[n], text: textOf(values[n]), isChosen: n === token })));
}

// A scale from values to pixels.
const scaleOf = (from, to, start, end) => (value) => start + ((value - from) / (to - from || 1)) * (end - start);

// Round numbers for an axis, about `count` of them.
function ticksOf(from, to, count = 5) {
  const raw = (to - from) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= raw);
  const ticks = [];
  for (let n = Math.ceil(from / step); n * step <= to + 1e-9; n += 1) ticks.push(Number((n * step).toPrecision(6)));
  return ticks;
}

// How many values fall into each of `count` bins; those outside count at the ends.
function binsOf(values, from, to, count) {
  const bins = new Uint32Array(count);
  for (const value of values) {
    bins[Math.min(count - 1, Math.max(0, Math.floor(((value - from) / (to - from)) * count)))] += 1;
  }
  return bins;
}

const axisText = (value) => String(value).replace("-", "−");

function horizontalAxis(x, y, ticks, title) {
  return s("g", { class: "axis" }, s("line", { x1: x(ticks[0]), x2: x(ticks.at(-1)), y1: y, y2: y }),
    ticks.map((tick) => s("g", {}, s("line", { x1: x(tick), x2: x(tick), y1: y, y2: y + 4 }),
      s("text", { x: x(tick), y: y + 16, "text-anchor": "middle" }, axisText(tick)))),
    title ? s("text", { x: (x(ticks[0]) + x(ticks.at(-1))) / 2, y: y + 32, "text-anchor": "middle" }, title) : null);
}

function verticalAxis(x, y, ticks) {
  return s("g", { class: "axis" }, ticks.map((tick) => s("g", {},
    s("line", { class: "grid", x1: x, x2: x - 4, y1: y(tick), y2: y(tick) }),
    s("text", { x: x - 7, y: y(tick) + 4, "text-anchor": "end" }, axisText(tick)))));
}

// Many points as one path: short strokes with round ends.
const pointsPath = (xs, ys, x, y) =>
  Array.from(xs, (value, n) => `M${x(value).toFixed(1)} ${y(ys[n]).toFixed(1)}h.01`).join("");

const curvePath = (points, x, y) =>
  points.map(([a, b], n) => `${n ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
