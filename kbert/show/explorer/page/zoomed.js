// The figure of a page without a sentence: Graphviz' own, which is zoomed and scrolled in its pane.

const SHAPED = ["InputLayer", "Extract", "Gather", "Masked"];  // low boxes that change the shape
const LEAST = 0.15;  // the scale
const GREATEST = 5;

Object.assign(FIGURE, {
  margin: 10,
  lay: (figure) => figure,
  draw: (box, place) => (blockRange(box) ? blocksBox(box, place) : layerBox(box, place)),
  path: generic ? curve : rounded,
  row: (name) => `[data-row="${name}"]`,
  fit: fitWhole,
  zoom: zoomBy,
  enlarge,
  scroll: (right, down) => pane().scrollBy(right, down),
  follow() {
    $("zoom-level").textContent = `${Math.round(view.scale * 100)} %`;
  },
  watch() {
    const clicks = { "zoom-in": () => zoomBy(1.25), "zoom-out": () => zoomBy(0.8), fit: fitWhole };
    for (const [id, onclick] of Object.entries(clicks)) Object.assign($(id), { onclick });
  },
  keys: { "+": () => zoomBy(1.25), "=": () => zoomBy(1.25), "-": () => zoomBy(0.8), 0: fitWhole },
});

// Graphviz' splines, of a model that is drawn as it is; the end is straight.
function curve(points) {
  const pairs = [];
  for (let place = 0; place < points.length; place += 2) {
    pairs.push(`${points[place]} ${points[place + 1]}`);
  }
  return `M${pairs[0]}C${pairs.slice(1, -1).join(" ")}L${pairs.at(-1)}`;
}

function layerBox(box, [x, y, width, height]) {
  const { id, name, shape, facts, label, kind, type, fraction, told, layer, isAttention } =
    describeBox(box);
  const [low, slim] = [height < 40, width < 120];
  const base = low ? 18.5 : 19;
  const heads = layer.part?.name === "heads";
  const right = label || (low && SHAPED.includes(type) ? shape : "");
  const amount = slim ? fitted(label, width - 24, { class: "amount left", x: 12, y: 34 })
    : s("text", { class: label ? "amount" : "shape", x: width - 11, y: base }, right);
  const parts = [
    s("rect.box", { width, height, rx: low ? 6 : 8 }),
    fitted(name, width - 23, { class: "name", x: 12, y: base }, slim ? null : amount),
    amount,
    low || slim || heads ? null
      : fitted(facts, width - (isAttention ? 62 : 24), { class: "shape left", x: 12, y: 35 }),
    !low && fraction > 0.009 ? shareBar(fraction, width, height) : null,
    ...(heads ? headMarks(layer, width) : []),
  ];
  return node(id, kind, [x, y], told, parts, isAttention && openerOf([width - 48, height - 20]));
}

function shareBar(fraction, width, height) {
  const wide = Math.max(2, fraction * (width - 24)).toFixed(1);
  return s("rect.share", { x: 12, y: height - 5.5, width: wide, height: 2.5, rx: 1.2 });
}

// The encoder as a whole, or the blocks before or after the one that is open.
function blocksBox(box, [x, y, width, height]) {
  const [first, last] = blockRange(box);
  const { name, facts, sum, label, told } = describeBox(box);
  const closed = box === ENCODER;
  const decks = (closed ? [8, 4] : last > first ? [4] : []).map((by) =>
    s("rect.deck", { x: by, y: -by, width: width - 2 * by, height: 20, rx: 8 }));
  const times = s("text.times", { x: width - 13, y: closed ? 24 : 20 },
    closed ? null : s("tspan.shape", `${sum}  `), label);
  const room = closed ? [13, 46, width - 26, 36] : [13, 30, width - 26, 16];
  const parts = [
    ...decks,
    s("rect.box", { width, height, rx: 10 }),
    fitted(name, width - 26, { class: "name", x: 13, y: 20 }, times),
    times,
    closed ? fitted(facts, width - 26, { class: "shape left", x: 13, y: 36 }, times) : null,
    ...blockMarks(first, last, room),
  ];
  return node(box, "encoder", [x, y], told, parts, null);
}

// Small marks to choose by: of a mark for several, the first. Others reach the same in the panel.
function drawMarks(first, last, [left, top, width, height], attributesOf, title, layers) {
  return marks(first, last, width, height).map(({ number, last: end, x, y, wide, high }) => {
    const rects = layers.map(([kind, from, part]) => s(`rect.k-${kind}`,
      { y: (high - 2) * from, width: wide - 2, height: (high - 2) * part }));
    return s("g",
      { "aria-hidden": "true", transform: moved(left + x, top + y), ...attributesOf(number, end) },
      s("title", `${title} ${rangeText(number, end)}`), rects,
      high > 10 && wide > 12 && s("text", { x: wide / 2 - 1, y: high / 2 + 2.5 }, number));
  });
}

function blockMarks(first, last, room) {
  const attributesOf = (number) => ({ class: "stripe", "data-open": number });
  const layers = [["feedforward", 0, 0.62], ["attention", 0.62, 0.38]];
  return drawMarks(first, last, room, attributesOf, "Block", layers);
}

function headMarks({ id }, width) {
  const attributesOf = (number, last) => headMark("cell", id, number, last);
  const room = [12, 27, width - 24, 32];
  return drawMarks(1, current().A, room, attributesOf, "Head", [["attention", 0, 1]]);
}

// All of it, as large as there is room, and no larger than 1.8 times.
function fitWhole() {
  const { width, height } = size();
  const room = pane();
  room.style.height = "";
  if (!room.clientWidth || !room.clientHeight) return;
  view.scale = Math.min((room.offsetWidth - 16) / width, (room.offsetHeight - 16) / height, 1.8);
  view.fitted = true;
  place();
}

// As large as can be read, and as its pane has room for.
function enlarge(element) {
  const room = pane().getBoundingClientRect();
  const { width, height } = element.getBoundingClientRect();
  const wide = (room.width - 24) / (width / view.scale);
  const high = (room.height - 24) / (height / view.scale);
  zoomBy(Math.min(wide, 1.15, Math.max(high, 0.72)) / view.scale);
}

// What is in the middle of the pane stays there.
function zoomBy(factor) {
  const room = pane();
  const x = (room.scrollLeft + room.clientWidth / 2) / room.scrollWidth;
  const y = (room.scrollTop + room.clientHeight / 2) / room.scrollHeight;
  view.scale = Math.min(GREATEST, Math.max(LEAST, view.scale * factor));
  view.fitted = false;
  place();
  room.scrollLeft = x * room.scrollWidth - room.clientWidth / 2;
  room.scrollTop = y * room.scrollHeight - room.clientHeight / 2;
}
