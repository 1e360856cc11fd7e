// Plots as SVG: histograms, a curve with points, and their axes.

const PLOT = 340;  // units of a plot's width; the styles stretch it

const scaleOf = (from, to, start, end) =>
  (value) => start + ((value - from) / (to - from || 1)) * (end - start);

// Round numbers for an axis, about six of them.
function ticksOf(from, to) {
  const raw = (to - from) / 6;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= raw);
  const ticks = [];
  for (let n = Math.ceil(from / step); n * step <= to; n += 1) {
    ticks.push(Number((n * step).toPrecision(6)));
  }
  return ticks;
}

const axisText = (value) => String(value).replace("-", "−");

function horizontalAxis(x, y, ticks, title = "") {
  return s("g.axis",
    s("path", { d: `M${x(ticks[0])} ${y}H${x(ticks.at(-1))}` }),
    ticks.map((tick) => s("text", { x: x(tick), y: y + 14, "text-anchor": "middle" },
      axisText(tick))),
    s("text", { x: PLOT / 2, y: y + 30, "text-anchor": "middle" }, title));
}

function verticalAxis(x, y, ticks) {
  return s("g.axis",
    s("path", { d: `M${x} ${y(ticks[0])}V${y(ticks.at(-1))}` }),
    ticks.map((tick) => s("text", { x: x - 5, y: y(tick) + 4, "text-anchor": "end" },
      axisText(tick))));
}

const plotOf = (height, told, ...children) => s("svg.stage-plot", {
  viewBox: `0 0 ${PLOT} ${height}`, role: "img", "aria-label": told,
}, ...children);

function histogramPath(values, from, to, x, base, height) {
  const counts = new Uint32Array(81);
  for (const value of values) {
    const bin = Math.floor(((value - from) / (to - from)) * counts.length);
    counts[Math.min(counts.length - 1, Math.max(0, bin))] += 1;
  }
  const tallest = Math.max(...counts);
  const wide = (x(to) - x(from)) / counts.length;
  const steps = Array.from(counts, (count) => `V${base - (count / tallest) * height}h${wide}`);
  return `M${x(from)} ${base}${steps.join("")}V${base}Z`;
}
