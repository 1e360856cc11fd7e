// Numbers as colours: rows of one vector, maps of a whole tensor.

// The theme's colours as numbers for an ImageData of 32 bits.
const heatTables = new WeakMap();

function heatTable() {
  const palette = paletteNow();
  if (!heatTables.has(palette)) {
    heatTables.set(palette, Uint32Array.from(palette, ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0));
  }
  return heatTables.get(palette);
}

// A canvas of one pixel per value; styles stretch it. A weight's colour grows with its square root.
function heatCanvas(values, columns, kind, limit) {
  const canvas = h("canvas", { width: columns, height: values.length / columns, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const table = heatTable();
  for (let n = 0; n < values.length; n += 1) {
    const part = kind === "signed" ? values[n] / limit : Math.sqrt(values[n] / limit);
    pixels[n] = table[Math.round(Math.min(1, Math.max(-1, part)) * SHADES) + SHADES];
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function heatLegend(kind, limit) {
  const ends = kind === "signed" ? [`≤ ${decimal(-limit)}`, "0", `≥ ${decimal(limit)}`] : ["0 %", percent(limit)];
  return h("div", { class: "heat-legend" }, h("i", { style: `background:${cssGradient(kind === "signed" ? -1 : 0, 1)}`, "aria-hidden": "true" }),
    h("span", {}, ends.map((end) => h("span", {}, end))));
}

// Vectors of one width below each other, with one dimension lit in all of them.
// Each row is {sign, name, values}; `onPick` is told the dimension. The stage remembers a chosen one
// under `memory`; at first it is the largest of the last row.
function heatRows(rows, { onPick, title = "Dimension", memory = "dimension", key = memory }) {
  const width = rows[0].values.length;
  const limit = quantile(rows.map((row) => row.values), 0.98);
  const shown = rows.map((row) => h("output", { class: "heat-value" }));
  const slider = h("input", { type: "range", min: 1, max: width, "aria-label": title, "data-key": key });
  const group = h("div", { class: "heat-rows" }, rows.flatMap((row, n) => [
    h("span", { class: "heat-sign", "aria-hidden": "true" }, row.sign || ""),
    h("span", { class: "heat-name" }, row.name),
    h("div", { class: "heat-row" }, heatCanvas(row.values, width, "signed", limit), h("i", { class: "heat-mark" })),
    shown[n],
  ]));
  group.append(h("label", { class: "heat-name heat-slider-name" }), slider, heatLegend("signed", limit));
  const light = (index) => {
    group.style.setProperty("--at", (index + 0.5) / width);
    group.querySelector(".heat-slider-name").textContent = `${title} ${grouped(index + 1)}`;
    slider.value = index + 1;
    slider.setAttribute("aria-valuetext",
      `${title} ${index + 1}: ${rows.map((row, n) => `${row.name} ${decimal(row.values[index])}`).join(", ")}`);
    shown.forEach((output, n) => { output.textContent = decimal(rows[n].values[index]); });
    onPick?.(index);
  };
  const choose = (index) => {
    stage[memory] = index;
    light(index);
  };
  slider.addEventListener("input", () => choose(Number(slider.value) - 1));
  followPointer(group, ".heat-row", (x) => choose(Math.floor(x * width)));
  light(Math.min(stage[memory] ?? largestIndex(rows.at(-1).values.map(Math.abs)), width - 1));
  return group;
}

// Vectors by name and their sum, with the sum of one dimension written out.
function sumCard(title, parts, sumName, sum) {
  const names = Object.keys(parts);
  const arithmetic = h("p", { class: "arithmetic", role: "status" });
  const rows = names.map((name, n) => ({ sign: n ? "+" : "", name, values: parts[name] }));
  return stageCard(title, heatRows([...rows, { sign: "=", name: sumName, values: sum }], { onPick: (index) => {
    const terms = names.map((name) => parts[name][index]);
    const digits = digitsThatAddUp(terms, sum[index]);
    const text = terms.map((term, n) => (n ? bracketed(decimal(term, digits)) : decimal(term, digits))).join(" + ");
    arithmetic.replaceChildren(h("span", { class: "dim" }, `Dimension ${index + 1}: `), mathOf(`${text} = ${decimal(sum[index], digits)}`));
  } }), arithmetic);
}

// Tells where a pointer is, from 0 to 1, in the elements of a selector.
function followPointer(group, selector, tell) {
  const follow = (event) => {
    const element = event.target.closest(selector);
    if (!element || (event.type === "pointermove" && event.pointerType === "touch")) return;
    const box = element.getBoundingClientRect();
    const inside = (at, start, size) => Math.min(0.999999, Math.max(0, (at - start) / size));
    tell(inside(event.clientX, box.left, box.width), inside(event.clientY, box.top, box.height), event);
  };
  group.addEventListener("pointermove", follow);
  group.addEventListener("pointerdown", follow);
}

// A map with a row per token. `columns` are names above it (tokens), or a number of dimensions.
function heatMap({ name, under, values, rows, columns, kind = "signed", limit, cell, onPick, spoken }) {
  const named = Array.isArray(columns);
  const width = named ? columns.length : columns;
  const top = limit ?? (kind === "signed" ? quantile([values], 0.98) : Math.max(...values));
  const step = Math.ceil(13 / cell);  // every name has 13 pixels at least
  const nameOf = (token, n) => h("span", { class: isAdded(token) ? "dim" : null }, n % step ? "" : token.text);
  const cells = h("div", { class: `map-cells map-${kind}`, role: "img", "aria-label": spoken || `${name}, a heat map` },
    heatCanvas(values, width, kind, top), h("i", { class: "map-mark" }));
  const map = h("div", {
    class: `map ${named ? "" : columns > 128 ? "map-wide" : "map-narrow"}`,
    style: `--cell:${cell}px;--rows:${rows.length};--columns:${width}`,
  }, h("div", { class: "map-rows", "aria-hidden": "true" }, rows.map(nameOf)), cells,
  named ? h("div", { class: "map-columns", "aria-hidden": "true" }, columns.map(nameOf)) : null);
  followPointer(map, ".map-cells", (x, y, event) =>
    onPick?.(Math.floor(y * rows.length), Math.floor(x * width), event));
  return h("figure", { class: "map-figure" },
    h("figcaption", {}, h("b", {}, name), under ? h("span", { class: "dim" }, under) : null), map);
}

// Lights a cell of a map; null: a whole row or column.
function markMap(figure, row, column) {
  const map = figure.querySelector(".map");
  map.style.setProperty("--row", row ?? 0);
  map.style.setProperty("--column", column ?? 0);
  map.classList.toggle("map-whole-row", column === null);
  map.classList.toggle("map-whole-column", row === null);
}
