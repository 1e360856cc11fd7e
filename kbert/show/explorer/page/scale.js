// Beside the figure, the model to scale: every layer as high as its part of the chosen measure,
// from the inputs at the bottom. Two models that are compared share one scale.

const MOST_DRAWN_BLOCKS = 48;  // of more, the kinds of layers are drawn together
const PART_OF_LABEL = 0.035;   // of the height, that a label needs

function drawScale() {
  if (generic) return;
  const wholes = counts.map(({ total }) => total[state.measure]);
  const most = wholes.reduce((found, one) => (one > found ? one : found), 1n);
  $("scale").classList.toggle("two", comparing());
  $("scale").replaceChildren(
    h("h2.scale-title", "To scale"),
    h("div.towers", sensible.map((config, place) =>
      tower(config, counts[place], COLUMNS[place], share(wholes[place], most)))));
}

// One model: its layers as pieces, and the parts of it that are large enough with their names.
function tower(config, counted, column, height) {
  const { title, short: shorten } = UNITS[state.measure];
  const groups = groupsOf(config, counted);
  const told = groups.map(({ name, part, amount }) =>
    `${name} ${percent(part)}, ${shorten(amount)}`).join("; ");
  const whose = comparing() ? `${column}: ${nameOf(config)}, ` : "";
  const drawn = groups.map(({ name, part, pieces }) => h("div.group", { style: growing(part) },
    pieces.map(pieceOf),
    part * height > PART_OF_LABEL && h("span.group-name", name, h("br"), percent(part))));
  return h("div.tower", { "data-tower": column },
    h("div.pieces-up", {
      role: "img", style: `height:${(height * 100).toFixed(2)}%`,
      "aria-label": `${whose}to scale by ${title}: ${told}`,
    }, drawn),
    h("p.tower-name",
      comparing() && h("b", `${column} ${presetOf(config) || ""} `),
      shorten(counted.total[state.measure])));
}

// Factors with a sum below 1 would leave room empty.
const growing = (part) => `flex-grow:${(part * 1e4).toFixed(3)}`;

const pieceOf = ({ id, kind, part, amount }) => h("span", {
  class: `piece-up k-${kind}${state.chosen.split("/")[0] === id ? " chosen" : ""}`,
  style: growing(part), "data-piece": id,
  title: `${id}: ${percent(part)}, ${UNITS[state.measure].short(amount)}`,
});

// The groups of a model from the inputs on, each with its pieces.
function groupsOf(config, counted) {
  const { before, block, after } = graphOf(config);
  const amountOf = (row) => counted.byRow[row.name][state.measure];
  const partOf = (amount) => share(amount, counted.total[state.measure]);
  const pieceOfRow = (row) =>
    ({ group: row.group, id: row.name, kind: row.kind, amount: amountOf(row) });
  const piecesOfBlock = (n, number = 1) => ["attention", "feedforward", "joint"].map((kind) => {
    const rows = block.filter((row) => kindInBlock(row) === kind);
    const id = n ? filled(rows[0].name, n, config) : ENCODER;
    return { group: "encoder", id, kind, amount: sum(rows.map(amountOf)) * BigInt(number) };
  });
  const blocks = config.L > MOST_DRAWN_BLOCKS ? piecesOfBlock(0, config.L)
    : Array.from({ length: config.L }, (_, place) => piecesOfBlock(place + 1)).flat();
  const all = [...before.map(pieceOfRow), ...blocks, ...after.map(pieceOfRow)]
    .map((piece) => ({ ...piece, part: partOf(piece.amount) }));
  return Object.entries(Object.groupBy(all.filter(({ part }) => part), ({ group }) => group))
    .map(([name, pieces]) => {
      const amount = sum(pieces.map((one) => one.amount));
      return { name, pieces, amount, part: partOf(amount) };
    });
}

const kindInBlock = ({ kind }) => (["attention", "feedforward"].includes(kind) ? kind : "joint");

// A pointer's shortcut: the figure has the same layers as boxes, which the keyboard reaches.
function watchScale() {
  const pieceAt = (event) => event.target.closest("[data-piece]");
  const onclick = (event) => {
    const piece = pieceAt(event);
    if (!piece) return;
    drawColumnOf(COLUMNS.indexOf(piece.closest("[data-tower]").dataset.tower));
    go(piece.dataset.piece);
  };
  fill($("scale"), {
    onclick,
    onpointerover: (event) => light(drawing(), pieceAt(event)?.dataset.piece),
    onpointerleave: () => light(drawing()),
  });
}
