// The figure with a sentence: Graphviz' boxes and edges in one column, so that tokens keep their column.
// Each box has its name at the left, or above on a narrow page, and its strip beside it.

// stretch: how much higher the strips are where there is room;
// up: how far it is scrolled from its bottom, where the tokens are
const stack = { width: 0, height: 0, strips: [], left: 0, wide: 0, bottom: 0, up: 0, stretch: 1 };

const ROW = { plain: 30, slim: 19, input: 22 };
const GAP = 10;         // between rows
const LANE = 8;         // between edges that go around
const FRAME = 9;        // between a frame and what is in it
const HEADER = 27;      // of a frame
const NARROW = 520;     // names stand above the strips, and rows are for fingers
const FINGER = 24;
const LABEL = 196;      // of the names, where they stand beside

// A sentence goes through the page's own model, not through another one that the sliders make.
const sentenceShown = () => Boolean(live) && state.active === 0 && !changedSizes(current()).length;

const isNarrow = () => stack.width < NARROW;

// Strips are higher where the pane has room for it.
function stripHeight(box, config) {
  const height = leastHeight(box, config);
  return height > INPUT_STRIP ? height * stack.stretch : height;
}

function leastHeight(box, config) {
  const type = box.startsWith("Input-") || NAMELESS.includes(box) ? "input" : rowType(box, config);
  if (type === "Dropout") return 0;
  if (type === "input") return INPUT_STRIP;
  if (type === "heads") return isNarrow() ? FINGER * Math.min(config.A, 16) : Math.max(24, Math.min(96, 14 * config.A));
  if (type === "blocks") {
    const [first, last] = blocksOf(box);
    return (last - first + 1) * blockHeight(config);
  }
  return 22;
}

const INPUT_STRIP = 10;
const NAMELESS = ["MLM", "NSP"];  // outputs: what they say stands above the figure
const blockHeight = (config) => (isNarrow() && config.L <= 48 ? FINGER : Math.max(5, Math.min(15, Math.floor(150 / config.L))));

function rowType(box, config) {
  if (box === ENCODER || box.startsWith("blocks-")) return "blocks";
  if (box.endsWith("/heads")) return "heads";
  return layerOf(idOf(box, config), config)?.row.type || "";
}

function rowHeight(box, config) {
  const strip = stripHeight(box, config);
  const label = isNarrow() ? 18 : 0;
  if (!strip) return ROW.slim + (isNarrow() ? 7 : 0);
  return Math.max(strip + 8 + label, strip === INPUT_STRIP ? ROW.input + label : ROW.plain + label);
}

// The order from bottom to top: Graphviz' own, but what belongs together stands together.
function orderBoxes(figure, config) {
  const after = (box) => graphOf(config).after.some((row) => row.name === box);
  const rank = (box) => {
    if (FIRST.includes(box)) return FIRST.indexOf(box);
    return after(box) && layerOf(box, config).row.group !== "MLM" ? FIRST.length + 1 : FIRST.length;
  };
  return Object.keys(figure.nodes).sort((a, b) => rank(a) - rank(b));
}

const FIRST = ["Input-Token", "Embedding-Token", "Input-Segment", "Embedding-Segment"];

// Graphviz' figure with its boxes stacked: the same form, and stack.strips by box.
function stackFigure(figure, config) {
  const boxes = orderBoxes(figure, config);
  const lanes = assignLanes(figure.edges, boxes);
  const side = (lanes.count + 1) * LANE + 2 * FRAME;
  const left = 2 * FRAME + 2;
  const wide = Math.max(180, stack.width - left - side);
  const nodes = {};
  let y = 0;
  boxes.forEach((box, place) => {
    y -= GAP + frameRoom(boxes, place);
    const height = rowHeight(box, config);
    y -= height;
    nodes[box] = [left, y, wide, height];
  });
  const frames = frameBoxes(nodes, boxes, left, wide, lanes);
  const top = Math.min(y, ...Object.values(frames).map((frame) => frame[1])) - 2;
  for (const box of [...Object.values(nodes), ...Object.values(frames)]) box[1] -= top;
  placeStrips(nodes, config);
  const edges = figure.edges.map(([from, to, tensor]) =>
    [from, to, tensor, routeEdge(nodes[from], nodes[to], lanes.of(from, to), boxes.indexOf(to) - boxes.indexOf(from))]);
  stack.bottom = -top;
  return { size: [stack.width, -top], nodes, frames, edges };
}

const inBlock = (box) => box.startsWith("Encoder-{n}-");
const inAttention = (box) => inBlock(box) && box.includes("/");

// Room below a box where a frame begins, or ends below it.
function frameRoom(boxes, place) {
  const [box, below] = [boxes[place], boxes[place - 1] || ""];
  const begins = (inside) => (inside(box) && !inside(below) ? FRAME : 0);
  const ended = (inside) => (!inside(box) && inside(below) ? HEADER : 0);
  return [inBlock, inAttention].reduce((sum, inside) => sum + begins(inside) + ended(inside), 0);
}

function frameBoxes(nodes, boxes, left, wide, lanes) {
  const frames = {};
  for (const [name, inside, out] of [["block", inBlock, 2 * FRAME], ["attention", inAttention, FRAME]]) {
    const members = boxes.filter(inside).map((box) => nodes[box]);
    if (!members.length) continue;
    const [low, high] = [members.at(-1)[1], members[0][1] + members[0][3]];
    const right = name === "attention" ? 3 * LANE : (lanes.inBlock + 1) * LANE;
    const under = name === "block" && state.attention ? 2 * FRAME : FRAME;
    frames[name] = [left - out + 4, low - HEADER, wide + out - 2 + right, high - low + HEADER + under - 2];
  }
  return frames;
}

// Edges that pass other boxes go around at the right, in lanes: the shortest ones nearest.
function assignLanes(edges, boxes) {
  const at = (box) => boxes.indexOf(box);
  const bundles = new Map();  // what leaves one box goes together
  for (const [from, to, tensor] of edges) {
    if (at(to) - at(from) === 1) continue;
    const key = `${from} ${tensor}`;
    const bundle = bundles.get(key) || { from, low: at(from), high: 0, to: [] };
    bundle.high = Math.max(bundle.high, at(to));
    bundle.to.push(to);
    bundles.set(key, bundle);
  }
  const placed = [];
  for (const bundle of [...bundles.values()].sort((a, b) => a.high - a.low - b.high + b.low)) {
    const taken = placed.filter((other) => bundle.low < other.high && other.low < bundle.high).map(({ lane }) => lane);
    bundle.lane = 0;
    while (taken.includes(bundle.lane)) bundle.lane += 1;
    placed.push(bundle);
  }
  const widest = (bundles) => Math.max(0, ...bundles.map(({ lane }) => lane + 1));
  return {
    count: widest(placed),
    inBlock: widest(placed.filter(({ to }) => to.some(inBlock))),
    of: (from, to) => placed.find((bundle) => bundle.from === from && bundle.to.includes(to))?.lane,
  };
}

function routeEdge(source, target, lane, apart) {
  const middle = ([x, y, width, height]) => [x + width, y + height / 2];
  if (apart === 1) {
    const x = source[0] + (isNarrow() ? 30 : LABEL / 2);
    return [x, source[1], x, target[1] + target[3]];
  }
  const [[x, low], [, high]] = [middle(source), middle(target)];
  const out = x + (lane + 1) * LANE + 3;
  return [x, low, out, low, out, high, x, high];
}

// Where each box's strip is: beside its name, or below it.
function placeStrips(nodes, config) {
  stack.strips = Object.entries(nodes).map(([box, [x, y, width, height]]) => {
    const high = stripHeight(box, config);
    const from = isNarrow() ? 8 : LABEL;
    const top = isNarrow() ? y + height - high - 4 : y + (height - high) / 2;
    return { box, x: x + from, y: top, width: width - from - 8, height: high };
  }).filter(({ height }) => height);
  const [strip] = stack.strips;
  stack.left = strip.x;
  stack.wide = strip.width;
}

// A box as a row: its name, its amount; blocks and heads can be chosen row by row.
function rowOfBox(box, place, config, counted) {
  const id = idOf(box, config);
  const [x, y, width, height] = place;
  const type = rowType(box, config);
  const kind = type === "blocks" ? "encoder" : layerOf(id, config).row.kind;
  const { title, amount } = titleOf(box, config, counted);
  const slim = height < 28;
  const hasPicks = type === "blocks" || type === "heads";
  const label = isNarrow() ? width - 20 : LABEL - 18;
  const base = isNarrow() && !slim ? 14 : height / 2 + 4;
  const amountText = s("text", { class: "amount", x: (isNarrow() ? width - 9 : LABEL - 10) - (hasPicks ? 20 : 0), y: base },
    amount && !slim ? UNITS[state.measure].short(amount) : "");
  const parts = [
    s("rect", { class: "box", width, height, rx: slim ? 5 : 7 }),
    fitted(title, label, { class: slim ? "name slim" : "name", x: 10, y: base }, amountText),
    amountText,
    ...pickRows(box, type, config, place),
  ];
  const told = `${title}, ${toldAmount(amount)}`;
  const opener = layerOf(id, config)?.template === NAMES.attention && !layerOf(id, config).part
    ? openButton(height) : null;
  const drawn = node(box === id ? box : id, kind, [x, y], told, parts, opener);
  drawn.classList.toggle("switched-off", isOff(id));
  return drawn;
}

function titleOf(box, config, counted) {
  const { measure } = state;
  if (rowType(box, config) === "blocks") {
    const [first, last] = blocksOf(box);
    return { title: `Encoder ${rangeText(first, last)}`, amount: counted.block[measure] * BigInt(last - first + 1) };
  }
  const layer = layerOf(idOf(box, config), config);
  const heads = layer.part?.name === "heads";
  const title = heads ? `${config.A} heads of ${config.H / config.A}`
    : layer.part ? layer.part.title : layer.id.replace(/^Encoder-\d+-/, "").replace("MultiHead", "");
  return { title, amount: counted.byRow[layer.partTemplate || layer.template][measure] };
}

function openButton(height) {
  return s("g", {
    class: "opener", role: "button", tabindex: -1, "data-act": "attention",
    "aria-label": "Open the attention: W_Q, W_K, W_V, heads, W_O",
    transform: `translate(${isNarrow() ? 104 : 106} ${isNarrow() ? 2 : height / 2 - 8})`,
  }, isNarrow() ? s("rect", { class: "finger", y: -4, width: 40, height: FINGER }) : null,
  s("rect", { width: 40, height: 16, rx: 8 }), s("text", { x: 20, y: 12 }, "open"));
}

// Rows to choose a block or a head by, over the strip.
function pickRows(box, type, config, [x, y]) {
  if (type !== "blocks" && type !== "heads") return [];
  const strip = stack.strips.find((other) => other.box === box);
  const [first, last] = type === "blocks" ? blocksOf(box) : [config.A, 1];
  const count = Math.abs(last - first) + 1;
  const high = strip.height / count;
  return Array.from({ length: count }, (_, place) => {
    const number = type === "blocks" ? last - place : place + 1;
    const head = `${idOf(box, config).split("/")[0]}/head-${number}`;
    const chosen = state.chosen === head;
    const off = type === "heads" && isOff(head);
    return s("g", {
      class: `pick${chosen ? " on" : ""}${off ? " off" : ""}`, "aria-hidden": "true",
      ...(type === "blocks" ? { "data-open": number } : { "data-head": head }),
      transform: `translate(${strip.x - x} ${strip.y - y + place * high})`,
    }, s("title", {}, type === "blocks" ? `Open block ${number}` : `Head ${number}`),
    s("rect", { x: -20, width: strip.width + 20, height: high }),
    high >= 11 || number % Math.ceil(11 / high) === 0
      ? s("text", { x: -4, y: high / 2 + 4 }, number) : null);
  });
}

// As wide as the pane, at no less than 92 %; what is higher than the pane is scrolled, on a phone with
// the page. The tokens' end of it is shown first.
function fitStack() {
  const phone = matchMedia("(max-width: 759px)").matches;
  const room = pane().getBoundingClientRect();
  if (!room.width) return;
  const wanted = room.width - PANE_EDGE;
  stack.stretch = 1;
  layStack(wanted);
  if (!phone) stretchStrips(room.height - 4);
  const { height } = size();
  view.scale = phone ? 1 : Math.max(LEAST_STACK, Math.min(1, (room.height - 4) / height));
  if (Math.abs(wanted - stack.width * view.scale) > 1) layStack(wanted / view.scale);
  pane().style.height = phone ? `${Math.ceil(size().height)}px` : "";
  view.x = PANE_EDGE / 2;
  view.fitted = true;
  scrollStack(0);
  place();
}

const PANE_EDGE = 8;
const LEAST_STACK = 0.92;
const MOST_STRETCH = 1.8;

function stretchStrips(room) {
  const strips = stack.strips.filter(({ height }) => height > INPUT_STRIP);
  const sum = strips.reduce((total, { height }) => total + height, 0);
  const free = room - size().height;
  if (free < 8 || !sum) return;
  stack.stretch = Math.min(MOST_STRETCH, 1 + free / sum);
  layStack(stack.width);
}

function layStack(width) {
  stack.width = width;
  drawFigure(drawing());
  rove(null);
  if (!running.trace) return;
  heat.columns = placeColumns(running.trace.tokens, stack.wide);
  paintMissingStrips();
}

// What follows the figure as it is moved and sized: the strips and the tokens.
function followFigure() {
  drawHeat();
  if (running.trace) placeTokens();
}

// Scrolls a figure that is higher than its pane; whether there was anything to scroll.
function scrollStack(by) {
  const over = Math.max(0, size().height * view.scale - pane().clientHeight);
  const before = stack.up;
  stack.up = Math.min(over, Math.max(0, before - by));
  view.y = pane().clientHeight - size().height * view.scale + stack.up;
  return stack.up !== before;
}
