// What is in a tensor that the page was made with: its figures and its histogram.

const figureText = (number) => {
  if (number === 0) return "0";
  const size = Math.abs(number);
  return size >= 1e5 || size < 1e-3 ? number.toExponential(3) : number.toPrecision(4);
};

function weightFigures(place) {
  if (!DATA.tensors) return null;
  const found = DATA.tensors[place];
  if (!found) return h("p", { class: "warning" }, "Not in the checkpoint: a loaded model has first weights here.");
  const facts = [["shape", `(${found.shape.join(", ")})`], ["dtype", found.dtype]];
  if (found.histogram) {
    for (const name of ["mean", "std", "norm"]) facts.push([name === "std" ? "deviation" : name, figureText(found[name])]);
  }
  return h("div", { class: "weights" },
    found.notFinite ? h("p", { class: "warning" }, `${grouped(found.notFinite)} numbers are NaN or infinite.`) : null,
    h("dl", {}, facts.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
    found.histogram ? histogram(found) : null);
}

function histogram({ histogram: counts, min, max }) {
  const [width, height] = [320, 56];
  const most = Math.max(...counts);
  const wide = width / counts.length;
  const bars = counts.map((number, place) => {
    const high = number ? Math.max(1, (number / most) * height) : 0;
    return s("rect", { x: (place * wide).toFixed(2), y: (height - high).toFixed(2), width: (wide - 1).toFixed(2), height: high.toFixed(2) });
  });
  const zero = min < 0 && max > 0 ? (-min / (max - min)) * width : null;
  const line = zero === null ? null : s("line", { x1: zero, x2: zero, y1: 0, y2: height });
  const told = `Histogram of ${grouped(counts.reduce((all, one) => all + one, 0))} numbers from ${figureText(min)} to ${figureText(max)}`;
  return h("figure", { class: "histogram" },
    s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": told, preserveAspectRatio: "none" }, bars, line),
    h("figcaption", {}, h("span", {}, figureText(min)), h("span", {}, figureText(max))));
}
