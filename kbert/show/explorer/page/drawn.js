// The figure as SVG, from the geometry that Graphviz gave it and the numbers of a configuration.

const ENCODER = "encoder";
const MOST_STRIPES = 64;
const SHAPED = ["InputLayer", "Extract", "Gather", "Masked"];  // low boxes that change the shape

function figureNow(config) {
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
  const margin = 10;
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
  light(svg);
}

// A text that is narrowed where it would not fit.
function fitted(text, limit, size, attributes) {
  const width = text.length * size;
  const narrowed = width > limit ? { textLength: limit, lengthAdjust: "spacingAndGlyphs" } : {};
  return s("text", { ...attributes, ...narrowed }, text);
}

function boxOf(box, place, config, counted) {
  if (generic) return layerBox(box, place, DATA.generic.rows.find((row) => row.name === box));
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
  const room = width - 34 - right.length * 6.2;
  const parts = [
    s("rect", { class: "box", width, height, rx: low ? 6 : 8 }),
    fitted(shownName, Math.max(room, 40), 7.6, { class: "name", x: 12, y: low ? 18.5 : 19 }),
    s("text", { class: label ? "amount" : "shape", x: width - 11, y: low ? 18.5 : 19 }, right),
  ];
  if (!low) {
    const facts = generic ? `${row.type} ${row.shape}` : row.shape;
    const limit = width - (row.opens ? 62 : 24);
    parts.push(fitted(facts, limit, 5.9, { class: "shape left", x: 12, y: 35 }));
    if (row.share > 0.009) parts.push(shareBar(row.share, width, height));
  }
  const told = `${row.name}, ${row.type}, output ${row.shape}, ` +
    `${amount ? `${grouped(amount)} ${UNITS[state.measure].noun}` : "none learned"}`;
  const opener = row.opens ? openerOf(width, height) : null;
  return node(id, row.kind, [x, y], told, parts, opener);
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
  const facts = closed ? `${each} each, ${all} in all`
    : UNITS[measure].short(counted.block[measure] * BigInt(number));
  const deck = (closed ? [8, 4] : number > 1 ? [4] : [])
    .map((by) => s("rect", { class: "deck", x: by, y: -by, width: width - 2 * by, height: 20, rx: 8 }));
  const parts = [
    ...deck,
    s("rect", { class: "box", width, height, rx: 10 }),
    s("text", { class: "name", x: 13, y: 20 }, title),
    s("text", { class: "times", x: width - 13, y: closed ? 24 : 20 }, `× ${grouped(number)}`),
    fitted(facts, closed ? width - 80 : 60, 5.9, closed
      ? { class: "shape left", x: 13, y: 36 }
      : { class: "shape", x: width - 42 - 12 * String(number).length, y: 20 }),
    ...stripes(first, last, closed ? 46 : 30, width - 26, closed ? 36 : 16),
  ];
  const told = `${title}, ${number} blocks alike, ${all} ${UNITS[measure].noun} in all`;
  return node(box, "encoder", [x, y], told, parts, null);
}

// A small mark a block, that opens it.
function stripes(first, last, top, width, height) {
  const number = last - first + 1;
  if (number > MOST_STRIPES) {
    return [s("text", { class: "shape left", x: 13, y: top + 12 }, "choose, then open a block by number")];
  }
  const rows = Math.ceil(number / 16);
  const columns = Math.ceil(number / rows);
  const [wide, high] = [width / Math.min(Math.max(columns, 6), 16), height / rows];
  return Array.from({ length: number }, (_, place) => {
    const [column, row] = [place % columns, Math.floor(place / columns)];
    const text = high > 10 && wide > 12;
    return s("g", {
      class: "stripe", "data-open": first + place, "aria-hidden": "true",
      transform: `translate(${(13 + column * wide).toFixed(1)} ${(top + row * high).toFixed(1)})`,
    }, ...[["feedforward", 0, 0.62], ["attention", 0.62, 0.38]].map(([kind, from, part]) => s("rect", {
      class: `k-${kind}`, y: ((high - 2) * from).toFixed(1), width: (wide - 2).toFixed(1),
      height: ((high - 2) * part).toFixed(1),
    })), s("rect", { class: "outline", width: (wide - 2).toFixed(1), height: (high - 2).toFixed(1), rx: 2 }),
    text ? s("text", { x: (wide / 2 - 1).toFixed(1), y: ((high - 2) / 2 + 3.4).toFixed(1) }, first + place) : null);
  });
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
    fitted(label, width - 24, 6.2, { class: "amount left", x: 12, y: 34 }),
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
    (amount ? `${grouped(amount)} ${UNITS[state.measure].noun}` : "nothing learned");
  return node(`${layer.id}`, "attention", [x, y], told, parts, null);
}

function headCells(layer, config, width, head) {
  if (config.A > MOST_STRIPES) return null;
  const rows = Math.ceil(config.A / 16);
  const columns = Math.ceil(config.A / rows);
  const [wide, high] = [(width - 24) / Math.max(columns, 6), 32 / rows];
  const cells = Array.from({ length: config.A }, (_, place) => s("g", {
    class: place + 1 === head ? "cell on" : "cell", "aria-hidden": "true",
    "data-head": `${layer.id.split("/")[0]}/head-${place + 1}`,
    transform: `translate(${(12 + (place % columns) * wide).toFixed(1)} ` +
      `${(27 + Math.floor(place / columns) * high).toFixed(1)})`,
  }, s("rect", { width: (wide - 2.5).toFixed(1), height: (high - 2.5).toFixed(1), rx: 3 }),
  high > 13 ? s("text", { x: ((wide - 2.5) / 2).toFixed(1), y: (high / 2 + 2.6).toFixed(1) }, place + 1) : null));
  return s("g", {}, cells);
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
    s("rect", { class: "grip", x: 6, y: 5, width: text.length * 7.7 + 14, height: 21, rx: 5 }),
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
  }, s("rect", { width: 20, height: 20, rx: 5 }), s("path", { d: "M6 6L14 14M14 6L6 14" }));
}
