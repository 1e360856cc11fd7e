// What is in a tensor that the page was made with: its figures and its histogram.

const figureText = (number) => {
  const size = Math.abs(number);
  if (number !== 0 && (size >= 1e5 || size < 1e-3)) return number.toExponential(3);
  return number === 0 ? "0" : number.toPrecision(4);
};

function weightFigures(place) {
  if (!DATA.tensors) return null;
  const tensor = DATA.tensors[place];
  if (!tensor) return warning("Not in the checkpoint: a loaded model has first weights here.");
  const { shape, dtype, mean, std, norm, notFinite, histogram: counts } = tensor;
  const facts = { shape: `(${shape.join(", ")})`, dtype };
  const statistics = counts && {
    mean: figureText(mean), deviation: figureText(std), norm: figureText(norm),
  };
  return h("div.weights",
    notFinite > 0 && warning(`${grouped(notFinite)} numbers are NaN or infinite.`),
    h("dl", Object.entries({ ...facts, ...statistics }).map(([name, text]) =>
      [h("dt", name), h("dd", text)])),
    counts && histogram(tensor));
}

const warning = (text) => h("p.warning", text);

function histogram({ histogram: counts, min, max }) {
  const [width, height] = [320, 56];
  const most = Math.max(...counts);
  const wide = width / counts.length;
  const bars = counts.map((number, place) => {
    const high = number ? Math.max(1, (number / most) * height) : 0;
    return s("rect", { x: place * wide, y: height - high, width: wide - 1, height: high });
  });
  const [low, high] = [min, max].map(figureText);
  const told = `Histogram of ${grouped(counts.reduce((all, one) => all + one, 0))} numbers ` +
    `from ${low} to ${high}`;
  return h("figure.histogram",
    s("svg", {
      viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": told,
      preserveAspectRatio: "none",
    }, bars),
    h("figcaption", h("span", low), h("span", high)));
}
