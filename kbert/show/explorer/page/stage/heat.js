// Numbers as colours: rows of one vector, maps of a whole tensor.

// A canvas of one pixel per number, which styles stretch. A weight's colour grows with its root.
function heatCanvas(values, columns, kind, most) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  if (kind === "signed") return paintHeat(canvas, values, columns, most);
  return paintHeat(canvas, values.map(Math.sqrt), columns, Math.sqrt(most));
}

// Vectors, {name, values}, below each other with one dimension lit in all, which `onPick` is told.
// The stage remembers it under `memory`; at first it is the largest of the last row.
function heatRows(rows, { onPick, memory = "dimension", key = memory } = {}) {
  const width = rows[0].values.length;
  const title = memory === "neuron" ? "Neuron" : "Dimension";
  const most = quantile(rows.map((row) => row.values), 0.98);
  const shown = rows.map(() => h("output.heat-value", {}));
  const name = h("span.dim", {});
  const slider = h("input", {
    type: "range", min: 1, max: width, "aria-label": title, "data-key": key,
    oninput: () => choose(Number(slider.value) - 1),
  });
  const group = h("div.heat-rows", rows.flatMap((row, n) => [
    h("span.heat-name", row.name),
    h("div.heat-row", heatCanvas(row.values, width, "signed", most)),
    shown[n],
  ]), name, slider);
  const light = (index) => {
    const texts = rows.map(({ values }) => decimal(values[index]));
    group.style.setProperty("--at", (index + 0.5) / width);
    name.textContent = `${title} ${grouped(index + 1)}`;
    slider.value = index + 1;
    slider.setAttribute("aria-valuetext", `${title} ${index + 1}: ${texts.join(", ")}`);
    shown.forEach((output, n) => { output.textContent = texts[n]; });
    onPick?.(index);
  };
  const choose = (index) => {
    stage[memory] = index;
    light(index);
  };
  followPointer(group, ".heat-row", (x) => choose(Math.floor(x * width)));
  const first = stage[memory] ?? largestIndex(rows.at(-1).values.map(Math.abs));
  light(Math.min(first, width - 1));
  return group;
}

// Rows of one vector; of the dimension that is lit, `write` gives formulas of its arithmetic.
function arithmeticCard(title, rows, write, options, ...more) {
  const arithmetic = h("div.arithmetic", { role: "status" });
  const onPick = (index) => arithmetic.replaceChildren(...write(index).map(mathOf));
  return stageCard(title, heatRows(rows, { onPick, ...options }), arithmetic, ...more);
}

function sumCard(parts, sumName, sum) {
  const names = Object.keys(parts);
  const rows = names.map((name, n) => ({ name: n ? `+ ${name}` : name, values: parts[name] }));
  return arithmeticCard("Number by number", [...rows, { name: `= ${sumName}`, values: sum }], (index) => {
    const terms = names.map((name) => parts[name][index]);
    const digits = digitsThatAddUp(terms, sum[index]);
    const written = terms.map((term) => decimal(term, digits));
    const text = written.map((term, n) => (n ? bracketed(term) : term)).join(" + ");
    return [`${text} = ${decimal(sum[index], digits)}`];
  });
}

// Tells where a pointer is, from 0 to 1, in the elements of a selector.
function followPointer(group, selector, tell) {
  const follow = (event) => {
    const element = event.target.closest(selector);
    if (!element || (event.type === "pointermove" && event.pointerType === "touch")) return;
    const box = element.getBoundingClientRect();
    const inside = (at, start, size) => Math.min(0.999999, Math.max(0, (at - start) / size));
    const x = inside(event.clientX, box.left, box.width);
    tell(x, inside(event.clientY, box.top, box.height), event);
  };
  group.addEventListener("pointermove", follow);
  group.addEventListener("pointerdown", follow);
}

const MOST_LETTERS = 10;  // of a token beside a map

// A map with a row per token; `columns` are tokens too, or a number.
function heatMap({ name, under, values, rows, columns, kind = "signed", most, cell, onPick }) {
  const named = Array.isArray(columns);
  const width = named ? columns.length : columns;
  const strongest = most ?? quantile([values], 0.98);
  const step = Math.ceil(13 / cell);  // every name has 13 pixels at least
  const nameOf = ({ text }, n) => (n % step ? "" : text.slice(0, MOST_LETTERS));
  const names = (tokens, side) =>
    h("div", { class: `map-${side}`, "aria-hidden": "true" }, tokens.map(nameOf).join("\n"));
  const size = named ? "" : width > 128 ? "map-wide" : "map-narrow";
  const map = h("div", {
    class: `map ${size}`, style: `--cell:${cell}px;--rows:${rows.length};--columns:${width}`,
  }, names(rows, "rows"), h("div", {
    class: `map-cells map-${kind}`, role: "img",
    "aria-label": `${name}: ${rows.length} rows, one per token, and ${width} columns`,
  }, heatCanvas(values, width, kind, strongest)), named ? names(columns, "columns") : null);
  followPointer(map, ".map-cells", (x, y, event) =>
    onPick(Math.floor(y * rows.length), Math.floor(x * width), event));
  return h("figure.map-figure",
    h("figcaption", h("b", name), h("span.dim", under)), map);
}

// Lights a cell of a map; null: the whole row.
function markMap(figure, row, column) {
  const map = figure.querySelector(".map");
  map.style.setProperty("--row", row);
  map.style.setProperty("--column", column ?? 0);
  map.classList.toggle("map-whole-row", column === null);
}
