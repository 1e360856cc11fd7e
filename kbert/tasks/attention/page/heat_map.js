// One head as a heat map on a canvas, with numbers in the cells where they have room.
const LABELLED = 10; // pixels of a cell that has a name beside it, at least
const NUMBERED = 24; // and of one with its weight in it
const LARGEST_CELL = 40;
const heat = { rows: [], columns: [], top: 1, cell: 1, margin: 0, cursor: null, values: [], bitmap: element("canvas"), width: 0 };

function layOut() {
  const context = $("heat").getContext("2d");
  const sharp = devicePixelRatio || 1;
  const room = $("heat-frame").clientWidth;
  context.font = "12px system-ui, sans-serif";
  const names = [...heat.rows, ...heat.columns].map((n) => context.measureText(tokens[n]).width);
  const wide = Math.min(110, room * 0.28, Math.max(0, ...names) + 8);
  const cellFor = (width) => Math.floor((width * sharp) / Math.max(1, heat.columns.length)) / sharp;
  heat.margin = cellFor(room - wide) >= LABELLED ? wide : 0;
  heat.cell = Math.max(1, Math.min(LARGEST_CELL, cellFor(room - heat.margin)));
  const [width, height] = [heat.columns, heat.rows].map((places) => heat.margin + heat.cell * places.length);
  const canvas = $("heat");
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
}

function drawHeat() {
  Object.assign(heat, { rows: shown("from"), columns: shown("to"), cursor: null });
  heat.values = heat.rows.map((row) => {
    const all = filledRow(chosen(), row);
    return heat.columns.map((column) => all[column]);
  });
  heat.top = Math.max(...heat.values.map((row) => Math.max(0, ...row)), 1e-6);
  const at = (row, column) => shade(heat.values[row][column], heat.top);
  paint(heat.bitmap, heat.rows.length, heat.columns.length, "weights", at);
  paint($("ramp"), 1, 256, "weights", (_, n) => shade(n / 255, 1));
  $("ramp-top").textContent = `${weightText(heat.top)}, the largest here`;
  $("heat").setAttribute("aria-label",
    `Heat map of ${whereText()}: ${heat.rows.length} tokens attend to ${heat.columns.length}; the arrow keys go from cell to cell`);
  $("heat-readout").textContent = heat.rows.length && heat.columns.length
    ? "Rows attend to columns. Point at a cell, or go through them with the arrow keys."
    : NOTHING;
  redrawHeat();
  drawAsTable();
}

function redrawHeat() {
  layOut();
  if (!heat.rows.length || !heat.columns.length) return;
  const context = $("heat").getContext("2d");
  const { cell, margin, rows, columns } = heat;
  const sharp = devicePixelRatio || 1;
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(heat.bitmap, margin, margin, cell * columns.length, cell * rows.length);
  if (margin) drawNames(context);
  if (cell >= NUMBERED) drawNumbers(context);
  context.strokeStyle = css("--line");
  context.lineWidth = 1;
  context.strokeRect(margin + 0.5, margin + 0.5, cell * columns.length - 1, cell * rows.length - 1);
  if (heat.cursor) drawCursor(context);
}

const sentenceColour = (n) => css(isSpecial.has(n) ? "--dim" : ["--a", "--b"][facts.segments[n]] || "--ink");
function drawNames(context) {
  const { cell, margin, rows, columns, cursor } = heat;
  context.textBaseline = "middle";
  const name = (n, marked) => {
    context.font = `${marked ? "700 " : ""}${Math.min(13, cell)}px system-ui, sans-serif`;
    context.fillStyle = marked ? css("--ink") : sentenceColour(n);
    context.fillText(tokens[n], 0, 0, margin - 6);
  };
  rows.forEach((n, row) => {
    context.save();
    context.textAlign = "right";
    context.translate(margin - 5, margin + (row + 0.5) * cell);
    name(n, cursor?.row === row);
    context.restore();
  });
  columns.forEach((n, column) => {
    context.save();
    context.textAlign = "left";
    context.translate(margin + (column + 0.5) * cell, margin - 5);
    context.rotate(-Math.PI / 2);
    name(n, cursor?.column === column);
    context.restore();
  });
}

function drawNumbers(context) {
  const dark = darkness.matches;
  context.font = `${heat.cell < 30 ? 10 : 12}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  heat.values.forEach((row, y) => row.forEach((weight, x) => {
    if (weight < 0.005) return;
    context.fillStyle = shade(weight, heat.top) > 138 !== dark ? "#fff" : "#10141c";
    const text = weight > 0.995 ? "1" : two(weight).slice(1);
    context.fillText(text, heat.margin + (x + 0.5) * heat.cell, heat.margin + (y + 0.5) * heat.cell);
  }));
}

function drawCursor(context) {
  const { cell, margin, rows, columns, cursor } = heat;
  const [x, y] = [margin + cursor.column * cell, margin + cursor.row * cell];
  context.strokeStyle = css("--minus");
  context.lineWidth = cell < 6 ? 1 : 2;
  context.globalAlpha = 0.55;
  context.strokeRect(margin, y, cell * columns.length, cell);
  context.strokeRect(x, margin, cell, cell * rows.length);
  context.globalAlpha = 1;
  context.strokeRect(x, y, cell, cell);
}

function moveTo(row, column) {
  if (row < 0 || column < 0 || row >= heat.rows.length || column >= heat.columns.length) return;
  if (heat.cursor?.row === row && heat.cursor.column === column) return;
  heat.cursor = { row, column };
  redrawHeat();
  const [from, to] = [heat.rows[row], heat.columns[column]];
  const weight = weightOf(chosen(), from, to);
  const said = weight === null
    ? `at most ${weightText(restOf(chosen(), from).most)}: not among the ${largest} largest of its row`
    : weight.toFixed(4);
  const token = (n) => element("b", { textContent: tokens[n] });
  $("heat-readout").replaceChildren(token(from), ` (token ${from + 1}) attends to `, token(to), ` (token ${to + 1}): ${said}`);
}

function listenToHeat() {
  const canvas = $("heat");
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    const place = (at) => Math.floor((at - heat.margin) / heat.cell);
    moveTo(place(event.clientY - box.top), place(event.clientX - box.left));
  };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("keydown", (event) => {
    const { row, column } = heat.cursor || { row: 0, column: 0 };
    const [lastRow, lastColumn] = [heat.rows.length - 1, heat.columns.length - 1];
    const moves = {
      ArrowDown: [row + 1, column], ArrowUp: [row - 1, column], ArrowRight: [row, column + 1], ArrowLeft: [row, column - 1],
      Home: [row, 0], End: [row, lastColumn], PageUp: [Math.max(0, row - 10), column], PageDown: [Math.min(lastRow, row + 10), column],
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moveTo(...(heat.cursor ? moves[event.key] : [0, 0]));
  });
  $("as-table").addEventListener("toggle", drawAsTable);
  new ResizeObserver(() => {
    const width = $("heat-frame").clientWidth;
    if (width !== heat.width) redrawHeat();
    heat.width = width;
  }).observe($("heat-frame"));
}

// For those who read rather than look: each token's five largest weights.
function drawAsTable() {
  if (!$("as-table").open) return;
  const head = element("tr", {}, ...["place", "token", "attends most to"].map((text) => element("th", { textContent: text, scope: "col" })));
  const to = new Set(heat.columns);
  const rows = heat.rows.map((n) => {
    const most = byWeight(rowOf(chosen(), n).filter(([column]) => to.has(column))).slice(0, 5);
    const text = most.map(([column, weight]) => `${tokens[column]} (${column + 1}) ${weightText(weight)}`).join(" · ");
    return element("tr", {}, element("td", { textContent: n + 1 }), element("th", { textContent: tokens[n], scope: "row" }), element("td", { textContent: text }));
  });
  $("as-table").querySelector("table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
}

views.push({ needs: ["layer", "head", "special", "direction", "colours"], draw: drawHeat });
