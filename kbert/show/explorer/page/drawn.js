// The figure as SVG, from the geometry that Graphviz gave it and the numbers of a configuration.

const ENCODER = "encoder";
const MOST_MARKS = 128;  // of blocks or heads in a box; where there are more, a mark stands for several
const SHAPED = ["InputLayer", "Extract", "Gather", "Masked"];  // low boxes that change the shape

// The geometry: Graphviz' own, or with a sentence the same boxes in one column.
function figureNow(config) {
  const figure = graphvizFigure(config);
  return live && sentenceShown() ? stackFigure(figure, config) : figure;
}

function graphvizFigure(config) {
  if (generic) return DATA.generic.figure.model;
  const kind = config.M === null || config.M === undefined ? "all" : "gathered";
  if (!state.open) return DATA.figure[`${kind}/closed`];
  const flags = [state.open > 1, state.open < config.L, state.attention];
  return DATA.figure[`${kind}/${flags.map(Number).join("")}`];
}

// The layer that a box stands for: of the block that is open, or the last of the blocks beside it.
function idOf(box, config) {
  return generic ? box : filled(box, state.open, config);
}

function drawFigure(svg) {
  const config = current();
  const figure = figureNow(config);
  const counted = generic ? null : count(config);
  const [width, height] = figure.size;
  const margin = live && sentenceShown() ? 0 : 10;
  svg.setAttribute("viewBox",
    `${-margin} ${-margin} ${width + 2 * margin} ${height + 2 * margin}`);
  const edges = figure.edges.map(([from, to, tensor, points]) =>
    edge(idOf(from, config), idOf(to, config), tensor, points));
  const boxes = Object.entries(figure.nodes)
    .map(([box, place]) => boxOf(box, place, config, counted));
  const frames = Object.entries(figure.frames || {})
    .map(([name, place]) => frame(name, place, config, counted));
  svg.replaceChildren(...frames.map(([box]) => box), ...edges, ...boxes,
    ...frames.map(([, header]) => header));
  narrow(svg);
  light(svg);
}

// A text that is narrowed where it would not fit: in some room, less what the text beside it takes.
function fitted(text, room, attributes, beside = null) {
  return Object.assign(s("text", attributes, text), { room, beside });
}

// Narrows the texts that are wider than their room, as they are measured in the reader's fonts.
function narrow(svg) {
  const texts = [...svg.querySelectorAll("text")].filter((one) => one.room);
  texts.forEach((one) => one.removeAttribute("textLength"));
  const rooms = texts.map(({ room, beside }) => Math.max(room - (beside ? beside.getComputedTextLength() + 6 : 0), 30));
  const widths = texts.map((one) => one.getComputedTextLength());
  texts.forEach((one, place) => {
    if (widths[place] > rooms[place]) fill(one, { textLength: rooms[place].toFixed(1), lengthAdjust: "spacingAndGlyphs" }, []);
  });
}

function boxOf(box, place, config, counted) {
  if (generic) return layerBox(box, place, DATA.generic.rows.find((row) => row.name === box));
  if (live && sentenceShown()) return rowOfBox(box, place, config, counted);
  if ([ENCODER, "blocks-before", "blocks-after"].includes(box)) {
    return blocksBox(box, place, config, counted);
  }
  const id = idOf(box, config);
  const layer = layerOf(id, config);
  if (layer.part) return partBox(layer, place, config, counted);
  const row = {
    ...layer.row,
    name: id,
    shape: shapeOf(layer.row.output_shape, config),
    costs: counted.byRow[layer.template],
    share: share(counted.byRow[layer.template][state.measure], counted.total[state.measure]),
    formula: layer.row.params,
    opens: layer.template === NAMES.attention,
  };
  return layerBox(id, place, row);
}

function layerBox(id, [x, y, width, height], row) {
  const amount = generic ? BigInt(row.params) : row.costs[state.measure];
  const label = amount ? UNITS[state.measure].text(amount) : "";
  const low = height < 40;
  const shownName = row.name.replace(/^Encoder-\d+-/, "");
  const right = label || (low && SHAPED.includes(row.type) ? row.shape : "");
  const amountText = s("text", { class: label ? "amount" : "shape", x: width - 11, y: low ? 18.5 : 19 }, right);
  const parts = [
    s("rect", { class: "box", width, height, rx: low ? 6 : 8 }),
    fitted(shownName, width - 23, { class: "name", x: 12, y: low ? 18.5 : 19 }, amountText),
    amountText,
  ];
  if (!low) {
    const facts = generic ? `${row.type} ${row.shape}` : row.shape;
    const limit = width - (row.opens ? 62 : 24);
    parts.push(fitted(facts, limit, { class: "shape left", x: 12, y: 35 }));
    if (row.share > 0.009) parts.push(shareBar(row.share, width, height));
  }
  const told = `${row.name}, ${row.type}, output ${row.shape}, ` +
    toldAmount(amount);
  const opener = row.opens ? openerOf(width, height) : null;
  return node(id, row.kind, [x, y], told, parts, opener);
}

// An amount of the chosen measure, for screen readers.
function toldAmount(amount) {
  if (!amount && state.measure === "params") return "nothing learned";
  return `${grouped(amount)} ${UNITS[state.measure].noun}`;
}

function shareBar(part, width, height) {
  return s("rect", {
    class: "share", x: 12, y: height - 5.5, height: 2.5, rx: 1.2,
    width: Math.max(2, part * (width - 24)).toFixed(1),
  });
}

function node(id, kind, [x, y], told, parts, opener) {
  const main = s("g", {
    class: "main", role: "button", tabindex: -1, "aria-label": told,
    "aria-pressed": String(state.chosen === id), "data-id": id,
  }, parts);
  return s("g", { class: `node k-${kind}`, "data-layer": id, transform: `translate(${x} ${y})` },
    main, opener);
}

function openerOf(width, height) {
  return s("g", {
    class: "opener", role: "button", tabindex: -1, "data-act": "attention",
    "aria-label": "Open the attention: W_Q, W_K, W_V, heads, W_O",
    transform: `translate(${width - 48} ${height - 20})`,
  }, s("rect", { width: 38, height: 15, rx: 7.5 }), s("text", { x: 19, y: 11 }, "open"));
}

// The encoder as a whole, or the blocks before or after the one that is open.
function blocksBox(box, [x, y, width, height], config, counted) {
  const first = box === "blocks-after" ? state.open + 1 : 1;
  const last = box === "blocks-before" ? state.open - 1 : config.L;
  const number = last - first + 1;
  const closed = box === ENCODER;
  const measure = state.measure;
  const each = UNITS[measure].text(counted.block[measure]);
  const all = UNITS[measure].text(counted.block[measure] * BigInt(number));
  const range = number > 1 ? `${first} … ${last}` : String(first);
  const title = closed ? "Encoder" : `Encoder ${range}`;
  const deck = (closed ? [8, 4] : number > 1 ? [4] : [])
    .map((by) => s("rect", { class: "deck", x: by, y: -by, width: width - 2 * by, height: 20, rx: 8 }));
  const sum = closed ? "" : `${UNITS[measure].short(counted.block[measure] * BigInt(number))}  `;
  const times = s("text", { class: "sum-of", x: width - 13, y: closed ? 24 : 20 },
    s("tspan", { class: "shape" }, sum), s("tspan", { class: "times" }, `× ${grouped(number)}`));
  const parts = [
    ...deck,
    s("rect", { class: "box", width, height, rx: 10 }),
    fitted(title, width - 26, { class: "name", x: 13, y: 20 }, times),
    times,
    closed ? fitted(`${each} each, ${all} in all`, width - 26, { class: "shape left", x: 13, y: 36 }, times) : null,
    ...stripes(first, last, closed ? 46 : 30, width - 26, closed ? 36 : 16),
  ].filter(Boolean);
  const told = `${title}, ${number} blocks alike, ${all} ${UNITS[measure].noun} in all`;
  return node(box, "encoder", [x, y], told, parts, null);
}

// Where marks stand that are drawn for the numbers from first to last, in rows; each for its own
// number, or for that and the next ones: [{number, last, x, y, wide, high}].
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

const rangeText = (first, last) => (last > first ? `${grouped(first)} … ${grouped(last)}` : grouped(first));

// A small mark per block, that opens it; of a mark for several, the first.
function stripes(first, last, top, width, height) {
  return marks(first, last, width, height).map(({ number, last: end, x, y, wide, high }) => s("g", {
    class: "stripe", "data-open": number, "aria-hidden": "true",
    transform: `translate(${(13 + x).toFixed(1)} ${(top + y).toFixed(1)})`,
  }, s("title", {}, `Block ${rangeText(number, end)}`),
  ...[["feedforward", 0, 0.62], ["attention", 0.62, 0.38]].map(([kind, from, part]) => s("rect", {
    class: `k-${kind}`, y: ((high - 2) * from).toFixed(1), width: (wide - 2).toFixed(1),
    height: ((high - 2) * part).toFixed(1),
  })), s("rect", { class: "outline", width: (wide - 2).toFixed(1), height: (high - 2).toFixed(1), rx: 2 }),
  high > 10 && wide > 12
    ? s("text", { x: (wide / 2 - 1).toFixed(1), y: ((high - 2) / 2 + 3.4).toFixed(1) }, number) : null));
}

function partBox(layer, [x, y, width, height], config, counted) {
  const { part, partTemplate } = layer;
  const costs = counted.byRow[partTemplate];
  const chosen = layerOf(state.chosen, config);
  const head = chosen && chosen.n === layer.n ? chosen.head : 0;
  const amount = costs[state.measure];
  const label = amount ? UNITS[state.measure].text(amount) : "";
  const heads = part.name === "heads";
  const wide = width > 120;
  const titles = heads
    ? `${grouped(config.A)} ${config.A > 1 ? "heads" : "head"} of ${config.H / config.A}` : part.title;
  const text = wide ? [
    s("text", { class: "name", x: 12, y: 19 }, titles),
    s("text", { class: "amount", x: width - 11, y: 19 }, label),
    heads ? null : s("text", { class: "shape left", x: 12, y: 35 }, shapeOf(part.output_shape, config)),
  ] : [
    s("text", { class: "name", x: 12, y: 19 }, titles),
    fitted(label, width - 24, { class: "amount left", x: 12, y: 34 }),
  ];
  const band = head && !heads ? s("rect", {
    class: "band", x: (12 + ((width - 24) * (head - 1)) / config.A).toFixed(1), y: height - 8,
    width: Math.max(1.5, (width - 24) / config.A).toFixed(1), height: 5,
  }) : null;
  const track = heads ? null : s("rect", {
    class: "track", x: 12, y: height - 7, width: width - 24, height: 3, rx: 1,
  });
  const parts = [
    s("rect", { class: "box", width, height, rx: 8 }), ...text, track, band,
    heads ? headCells(layer, config, width, head) : null,
  ].filter(Boolean);
  const told = `${titles} of ${layer.row.name.replace("{n}", layer.n)}, ` +
    toldAmount(amount);
  return node(`${layer.id}`, "attention", [x, y], told, parts, null);
}

function headCells(layer, config, width, head) {
  return s("g", {}, marks(1, config.A, width - 24, 32).map(({ number, last, x, y, wide, high }) => s("g", {
    class: number <= head && head <= last ? "cell on" : "cell", "aria-hidden": "true",
    "data-head": `${layer.id.split("/")[0]}/head-${number}`,
    transform: `translate(${(12 + x).toFixed(1)} ${(27 + y).toFixed(1)})`,
  }, s("title", {}, `Head ${rangeText(number, last)}`),
  s("rect", { width: (wide - 2).toFixed(1), height: (high - 2).toFixed(1), rx: Math.min(3, high / 4) }),
  high > 13 ? s("text", { x: ((wide - 2) / 2).toFixed(1), y: (high / 2 + 2.6).toFixed(1) }, number) : null)));
}

function frame(name, [x, y, width, height], config, counted) {
  const block = name === "block";
  const template = block ? null : NAMES.attention;
  const costs = block ? counted.block : counted.byRow[template];
  const title = block ? `Encoder ${state.open}` : "Self-attention";
  const id = block ? ENCODER : filled(template, state.open, config);
  const label = UNITS[state.measure].text(costs[state.measure]);
  const text = block ? `Encoder ${state.open} of ${config.L}` : title;
  const parts = [
    s("g", { class: "main", role: "button", tabindex: -1, "data-id": id, "aria-pressed": String(state.chosen === id),
      "aria-label": `${title}, ${label} ${UNITS[state.measure].noun}` },
    s("rect", { class: "grip", x: 6, y: 3, width: text.length * 7.7 + 14, height: 24, rx: 5 }),
    s("text", { class: "name", x: 13, y: 20 }, text)),
    s("text", { class: "amount", x: width - 38, y: 20 }, label),
    closer(block ? "Close the encoder" : "Close the attention", block ? "close" : "attention", width - 28),
  ];
  const at = { class: `frame f-${name}`, transform: `translate(${x} ${y})` };
  return [s("g", { ...at, "data-layer": id }, s("rect", { class: "box", width, height, rx: 12 })), s("g", at, parts)];
}

function closer(label, act, x) {
  return s("g", {
    class: "closer", role: "button", tabindex: -1, "aria-label": label, "data-act": act,
    transform: `translate(${x} 6)`,
  }, s("rect", { x: -2, y: -2, width: 24, height: 24, rx: 5 }), s("path", { d: "M6 6L14 14M14 6L6 14" }));
}
