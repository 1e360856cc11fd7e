// The figure with a sentence: Graphviz' boxes in one column, so that tokens keep their column. Each
// box has its name at the left, or above on a narrow page, and its strip beside it.

// stretch: how much higher the strips are where there is room;
// up: how far it is scrolled from its bottom, where the tokens are
const stack = { width: 0, strips: [], left: 0, wide: 0, bottom: 0, up: 0, stretch: 1 };

const ROW = { plain: 30, slim: 19, input: 22 };
const GAP = 10;         // between rows
const LANE = 8;         // between edges that go around
const FRAME = 9;        // between a frame and what is in it
const HEADER = 27;      // of a frame
const NARROW = 520;     // names stand above the strips, and rows are for fingers
const FINGER = 24;
const LABEL = 196;      // of the names, where they stand beside
const INPUT_STRIP = 10;
const NAMELESS = ["MLM", "NSP"];  // outputs: what they say stands above the figure

Object.assign(FIGURE, {
  margin: 0,
  lay: stackFigure,
  draw: rowOfBox,
  path: rounded,
  row: (name) => `[data-id="${name}"]`,
  fit: fitStack,
  follow: followFigure,
  enlarge: () => {},  // a column is readable as it stands
  scroll(right, down) {
    scrollStack(down);
    place();
  },
  watch() {
    pane().addEventListener("wheel", (event) => {
      if (event.ctrlKey) return;
      if (scrollStack(event.deltaY)) event.preventDefault();
      place();
    }, { passive: false });
  },
});

const isNarrow = () => stack.width < NARROW;

function rowType(box) {
  if (blockRange(box)) return "blocks";
  if (box.endsWith("/heads")) return "heads";
  if (box.startsWith("Input-") || NAMELESS.includes(box)) return "input";
  return layerNow(idOf(box, current())).row.type;
}

// The marks of blocks or heads that are a row of a box's strip each, from the top down.
function rowsToPick(box) {
  if (box.endsWith("/heads")) return marks(1, current().A, 1, 1);
  return blockRange(box) ? marks(...blockRange(box), 1, 1).reverse() : [];
}

function stripHeight(box) {
  const type = rowType(box);
  const rows = rowsToPick(box).length;
  if (type === "Dropout" || (!rows && !sentenceShown())) return 0;
  if (type === "input") return INPUT_STRIP;
  if (!rows) return 22 * stack.stretch;
  const most = type === "heads" ? 96 : 150;
  const row = Math.max(5, Math.min(15, Math.floor(most / rows)));
  return Math.max(22, rows * (isNarrow() && rows <= 48 ? FINGER : row)) * stack.stretch;
}

function rowHeight(box) {
  const strip = stripHeight(box);
  const label = isNarrow() ? 18 : 0;
  if (!strip) return !sentenceShown() ? ROW.plain : isNarrow() ? FINGER + 2 : ROW.slim;
  return Math.max(strip + 8, strip === INPUT_STRIP ? ROW.input : ROW.plain) + label;
}

// The order from bottom to top: Graphviz' own, but what belongs together stands together.
function orderBoxes(figure, config) {
  const last = graphOf(config).after.filter(({ group }) => group !== "MLM");
  const rank = (box) => {
    if (FIRST.includes(box)) return FIRST.indexOf(box);
    return FIRST.length + (last.some(({ name }) => name === box) ? 1 : 0);
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
    const height = rowHeight(box);
    y -= GAP + frameRoom(boxes, place) + height;
    nodes[box] = [left, y, wide, height];
  });
  const frames = frameBoxes(nodes, boxes, left, wide, lanes);
  const places = [...Object.values(nodes), ...Object.values(frames)];
  const top = Math.min(...places.map((place) => place[1])) - 2;
  for (const place of places) place[1] -= top;
  stack.bottom = -top;
  placeStrips(nodes);
  const edges = figure.edges.map(([from, to, tensor]) => {
    const apart = boxes.indexOf(to) - boxes.indexOf(from);
    return [from, to, tensor, routeEdge(nodes[from], nodes[to], lanes.of(from, to), apart)];
  });
  return { size: [stack.width, stack.bottom], nodes, frames, edges };
}

const inBlock = (box) => box.startsWith("Encoder-{n}-");
const inAttention = (box) => inBlock(box) && box.includes("/");

// Room below a box where a frame begins, or ends below it.
function frameRoom(boxes, place) {
  const [box, below] = [boxes[place], boxes[place - 1] || ""];
  const room = (inside) => {
    if (inside(box) === inside(below)) return 0;
    return inside(box) ? FRAME : HEADER;
  };
  return room(inBlock) + room(inAttention);
}

function frameBoxes(nodes, boxes, left, wide, lanes) {
  const frames = {};
  const kinds = [["block", inBlock, 2 * FRAME], ["attention", inAttention, FRAME]];
  for (const [name, inside, out] of kinds) {
    const members = boxes.filter(inside).map((box) => nodes[box]);
    if (!members.length) continue;
    const [low, high] = [members.at(-1)[1], members[0][1] + members[0][3]];
    const right = name === "attention" ? 3 * LANE : (lanes.inBlock + 1) * LANE;
    const under = name === "block" && state.attention ? 2 * FRAME : FRAME;
    frames[name] = [left - out + 4, low - HEADER, wide + out - 2 + right,
      high - low + HEADER + under - 2];
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
    const taken = placed.filter((other) => bundle.low < other.high && other.low < bundle.high)
      .map(({ lane }) => lane);
    bundle.lane = 0;
    while (taken.includes(bundle.lane)) bundle.lane += 1;
    placed.push(bundle);
  }
  const widest = (some) => Math.max(0, ...some.map(({ lane }) => lane + 1));
  return {
    count: widest(placed),
    inBlock: widest(placed.filter(({ to }) => to.some(inBlock))),
    of: (from, to) =>
      placed.find((bundle) => bundle.from === from && bundle.to.includes(to))?.lane,
  };
}

function routeEdge(source, target, lane, apart) {
  if (apart === 1) {
    const x = source[0] + (isNarrow() ? 30 : LABEL / 2);
    return [x, source[1], x, target[1] + target[3]];
  }
  const [low, high] = [source, target].map(([, y, , height]) => y + height / 2);
  const x = source[0] + source[2];
  const out = x + (lane + 1) * LANE + 3;
  return [x, low, out, low, out, high, x, high];
}

function placeStrips(nodes) {
  const from = isNarrow() ? 8 : LABEL;
  stack.strips = Object.entries(nodes).map(([box, [x, y, width, boxHeight]]) => {
    const height = stripHeight(box);
    const above = isNarrow() ? boxHeight - height - 4 : (boxHeight - height) / 2;
    return { box, x: x + from, y: y + above, width: width - from - 8, height };
  }).filter(({ height }) => height);
  const [[left, , wide]] = Object.values(nodes);
  stack.left = left + from;
  stack.wide = wide - from - 8;
}

// A box as a row: its name and its amount, then the blocks or heads of its strip.
function rowOfBox(box, [x, y, width, height]) {
  const { id = box, kind, name, told, sum, isAttention } = describeBox(box);
  const slim = height < 28;
  const picks = pickRows(box, id, [x, y]);
  const label = isNarrow() ? width - 20 : LABEL - 18;
  const base = isNarrow() && height > ROW.plain ? 14 : height / 2 + 4;
  const right = (isNarrow() ? width - 9 : LABEL - 10) - (picks.length ? 20 : 0);
  const amount = s("text.amount", { x: right, y: base }, sum);
  const parts = [
    s("rect.box", { width, height, rx: slim ? 5 : 7 }),
    fitted(name.replace("MultiHead", ""), label,
      { class: slim ? "name slim" : "name", x: 10, y: base }, amount),
    amount,
    ...picks,
  ];
  const opener = isAttention && openerOf([105, isNarrow() ? 2 : height / 2 - 8]);
  const drawn = node(id, kind, [x, y], told, parts, opener);
  drawn.classList.toggle("switched-off", isOff(id));
  return drawn;
}

function pickRows(box, id, [x, y]) {
  const rows = rowsToPick(box);
  const strip = stack.strips.find((other) => other.box === box);
  const high = strip?.height / rows.length;
  const heads = box.endsWith("/heads");
  return rows.map(({ number, last }, place) => {
    const mark = heads ? headMark("pick", id, number, last)
      : { class: "pick", "data-open": number };
    const transform = moved(strip.x - x, strip.y - y + place * high);
    const drawn = s("g", { "aria-hidden": "true", transform, ...mark },
      s("title", `${heads ? "Head" : "Open block"} ${rangeText(number, last)}`),
      s("rect", { x: -20, width: strip.width + 20, height: high }),
      number % Math.ceil(11 / high) === 0 && s("text", { x: -4, y: high / 2 + 4 }, number));
    drawn.classList.toggle("off", isOff(mark["data-head"]));
    return drawn;
  });
}

const PANE_EDGE = 8;
const LEAST_STACK = 0.92;
const MOST_STRETCH = 1.8;

// As wide as the pane; what is higher is scrolled, on a phone with the page, from the tokens' end.
function fitStack() {
  const room = pane().getBoundingClientRect();
  if (!room.width) return;
  const wanted = room.width - PANE_EDGE;
  stack.stretch = 1;
  layStack(wanted);
  if (!phone.matches) stretchStrips(room.height - 4);
  const least = Math.max(LEAST_STACK, Math.min(1, (room.height - 4) / size().height));
  view.scale = phone.matches ? 1 : least;
  if (Math.abs(wanted - stack.width * view.scale) > 1) layStack(wanted / view.scale);
  pane().style.height = phone.matches ? `${Math.ceil(size().height)}px` : "";
  view.x = PANE_EDGE / 2;
  view.fitted = true;
  scrollStack(0);
  place();
}

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
  redrawFigure();
  if (!traceShown()) return;
  heat.columns = placeColumns(running.trace.tokens, stack.wide);
  paintMissingStrips();
}

function followFigure() {
  drawHeat();
  if (running.trace) placeTokens();
}

// Scrolls a figure that is higher than its pane; whether there was anything to scroll.
function scrollStack(by) {
  const { clientHeight } = pane();
  const height = size().height * view.scale;
  const before = stack.up;
  stack.up = Math.min(Math.max(0, height - clientHeight), Math.max(0, before - by));
  view.y = clientHeight - height + stack.up;
  return stack.up !== before;
}
