// The figure as SVG, from the geometry that Graphviz gave it and the numbers of a configuration.

const ENCODER = "encoder";
const MOST_MARKS = 128;  // of blocks or heads in a box; of more, a mark stands for several

// How the figure is laid out, its boxes are drawn, and it is fitted into its pane: zoomed.js says it
// for a page without a sentence, sentence/stack.js for one with a sentence.
const FIGURE = {};

// The geometry that Graphviz gave, laid out.
function figureNow(config) {
  const flags = [state.open > 1, state.open < config.L, state.attention];
  const key = state.open ? flags.map(Number).join("") : "closed";
  return FIGURE.lay(DATA.figure[`${graphKind(config)}/${key}`], config);
}

// The layer that a box stands for: of the block that is open.
const idOf = (box, config) => filled(box, state.open, config);

function drawFigure(svg) {
  const config = current();
  const figure = figureNow(config);
  const [width, height] = figure.size;
  const { margin } = FIGURE;
  const viewBox = [-margin, -margin, width + 2 * margin, height + 2 * margin].join(" ");
  const edges = figure.edges.map(([from, to, tensor, points]) =>
    edge(idOf(from, config), idOf(to, config), tensor, points));
  const boxes = Object.entries(figure.nodes)
    .map(([box, place]) => FIGURE.draw(box, place));
  const frames = Object.entries(figure.frames || {})
    .map(([name, place]) => frame(name, place));

  svg.setAttribute("viewBox", viewBox);
  svg.replaceChildren(...frames.map(([box]) => box), ...edges, ...boxes,
    ...frames.map(([, header]) => header));
  narrow(svg);
  light(svg);
}

// What a layer or a part of the attention shows, in a box and in a row of the list.
function describeLayer(id) {
  const layer = layerNow(id);
  const { row, part } = layer;
  const { byRow, total } = countsNow();
  const amount = byRow[layer.partTemplate || layer.template][state.measure];
  const shape = shapeNow((part || row).output_shape);
  const [whole] = id.split("/");
  const name = part ? partTitle(layer) : generic ? id : id.replace(/^Encoder-\d+-/, "");
  const { kind, type } = row;
  return {
    id, name, shape, kind, type, layer, facts: generic ? `${type} ${shape}` : shape,
    isAttention: !part && layer.template === NAMES.attention,
    label: amount ? UNITS[state.measure].text(amount) : "",
    sum: amount ? UNITS[state.measure].short(amount) : "",
    fraction: share(amount, total[state.measure]),
    told: `${part ? `${name} of ${whole}` : `${id}, ${type}`}, output ${shape}, ` +
      toldAmount(amount),
  };
}

// The same of blocks that are alike.
function describeBlocks([first, last]) {
  const { block, total } = countsNow();
  const number = last - first + 1;
  const { text, short: shorten, noun } = UNITS[state.measure];
  const each = block[state.measure];
  const all = each * BigInt(number);
  const isWhole = number === current().L;
  const name = isWhole && !state.open ? "Encoder" : `Encoder ${rangeText(first, last)}`;
  return {
    name, kind: "encoder", label: `× ${grouped(number)}`, sum: shorten(all),
    facts: `${text(each)} each, ${text(all)} in all`,
    fraction: share(all, total[state.measure]),
    told: `${name}, ${number} blocks alike, ${text(all)} ${noun} in all`,
  };
}

// The blocks that a box stands for; null: it is a layer.
function blockRange(box) {
  const { L } = current();
  if (generic) return null;
  if (box === ENCODER) return [1, L];
  if (box === "blocks-before") return [1, state.open - 1];
  return box === "blocks-after" ? [state.open + 1, L] : null;
}

// A text that is narrowed where it would not fit in its room, less what the text beside it takes.
function fitted(text, room, attributes, beside = null) {
  return Object.assign(s("text", attributes, text), { room, beside });
}

// Narrows the texts that are wider than their room, as they are measured in the reader's fonts.
function narrow(svg) {
  const texts = [...svg.querySelectorAll("text")].filter((one) => one.room);
  texts.forEach((one) => one.removeAttribute("textLength"));
  const taken = ({ beside }) => (beside ? beside.getComputedTextLength() + 6 : 0);
  const rooms = texts.map((one) => Math.max(one.room - taken(one), 30));
  const widths = texts.map((one) => one.getComputedTextLength());
  texts.forEach((one, place) => {
    if (widths[place] <= rooms[place]) return;
    fill(one, { textLength: rooms[place].toFixed(1), lengthAdjust: "spacingAndGlyphs" });
  });
}

function describeBox(box) {
  const blocks = blockRange(box);
  return blocks ? describeBlocks(blocks) : describeLayer(idOf(box, current()));
}

const moved = (x, y) => `translate(${x} ${y})`;

// A part of the figure that is pressed: Tab reaches one of them at a time, arrows the others.
const pressed = (kind, told, attributes, ...parts) =>
  s(`g.${kind}`, { role: "button", tabindex: -1, "aria-label": told, ...attributes }, parts);
const chooser = (id, told, ...parts) =>
  pressed("main", told, { "data-id": id, "aria-pressed": String(state.chosen === id) }, ...parts);

const node = (id, kind, [x, y], told, parts, opener) => s(`g.node.k-${kind}`,
  { "data-layer": id, transform: moved(x, y) }, chooser(id, told, parts), opener);

const openerOf = ([x, y]) =>
  pressed("opener", "Open the attention: W_Q, W_K, W_V, heads, W_O",
    { "data-act": "attention", transform: moved(x, y) },
    s("rect.finger", { y: -5, width: 38, height: 24 }),
    s("rect", { width: 38, height: 15, rx: 7.5 }), s("text", { x: 19, y: 11 }, "open"));

const rangeText = (first, last) =>
  (last > first ? `${grouped(first)} … ${grouped(last)}` : grouped(first));

// Where marks stand for the numbers from first to last, in rows; each for its own number, or for
// that and the next ones: [{number, last, x, y, wide, high}].
function marks(first, last, width, height) {
  const step = Math.ceil((last - first + 1) / MOST_MARKS);
  const count = Math.ceil((last - first + 1) / step);
  const rows = Math.ceil(count / (count > 64 ? 32 : 16));
  const columns = Math.ceil(count / rows);
  const [wide, high] = [width / Math.max(columns, 6), height / rows];
  return Array.from({ length: count }, (_, place) => {
    const number = first + place * step;
    return {
      number, last: Math.min(number + step - 1, last), wide, high,
      x: (place % columns) * wide, y: Math.floor(place / columns) * high,
    };
  });
}

// A mark of the heads from one to another: it chooses the first.
function headMark(kind, id, number, last) {
  const [attention] = id.split("/");
  const chosen = layerNow(state.chosen);
  const isChosen = chosen?.id.startsWith(`${attention}/`) &&
    number <= chosen.head && chosen.head <= last;
  return { class: isChosen ? `${kind} on` : kind, "data-head": `${attention}/head-${number}` };
}

// The frame around an open block or attention, and its header, which lies over the edges.
function frame(name, [x, y, width, height]) {
  const config = current();
  const block = name === "block";
  const costs = block ? countsNow().block : countsNow().byRow[NAMES.attention];
  const title = block ? `Encoder ${state.open} of ${config.L}` : "Self-attention";
  const id = block ? ENCODER : filled(NAMES.attention, state.open, config);
  const label = UNITS[state.measure].text(costs[state.measure]);
  const main = chooser(id, `${title}, ${label} ${UNITS[state.measure].noun}`,
    s("rect.grip", { x: 6, y: 3, width: title.length * 7.7 + 14, height: 24, rx: 5 }),
    s("text.name", { x: 13, y: 20 }, title));
  const closer = pressed("closer", `Close the ${block ? "encoder" : "attention"}`,
    { "data-act": block ? "close" : "attention", transform: moved(width - 28, 6) },
    s("rect", { x: -2, y: -2, width: 24, height: 24, rx: 5 }),
    s("path", { d: "M6 6L14 14M14 6L6 14" }));
  const at = { class: `frame f-${name}`, transform: moved(x, y) };
  return [
    s("g", { ...at, "data-layer": id }, s("rect.box", { width, height, rx: 12 })),
    s("g", at, main, s("text.amount", { x: width - 38, y: 20 }, label), closer),
  ];
}
