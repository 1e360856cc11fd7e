// Beside the figure, the model to scale: every layer as high as its part of the chosen measure, from
// the inputs at the bottom. Two models that are compared share one scale.

const MOST_DRAWN_BLOCKS = 48;  // of more, the kinds of layers are drawn together
const PART_OF_LABEL = 0.035;   // of the height, that a label needs

function drawScale() {
  if (generic) return;
  const all = sensible.map((config) => ({ config, counted: count(config) }));
  const most = all.reduce((found, { counted }) => (counted.total[state.measure] > found ? counted.total[state.measure] : found), 1n);
  $("scale").classList.toggle("two", all.length > 1);
  $("scale").replaceChildren(
    h("h2", { class: "scale-title" }, "To scale"),
    h("div", { class: "towers" }, all.map(({ config, counted }, place) =>
      tower(config, counted, place, share(counted.total[state.measure], most)))));
}

// One model: its layers as pieces, and the parts of it that are large enough with their names.
function tower(config, counted, place, height) {
  const parts = groupsOf(config, counted);
  const told = parts.map(({ name, amount, part }) => `${name} ${percent(part)}, ${UNITS[state.measure].short(amount)}`);
  const whose = comparing() ? `${COLUMNS[place]}: ${nameOf(config)}, ` : "";
  return h("div", { class: "tower", "data-tower": COLUMNS[place] },
    h("div", {
      class: "pieces-up", role: "img", style: `height:${(height * 100).toFixed(2)}%`,
      "aria-label": `${whose}to scale by ${UNITS[state.measure].title}: ${told.join("; ")}`,
    }, parts.map(({ name: group, part, pieces }) => h("div", { class: "group", style: growing(part) },
      pieces.map(pieceOf), part * height > PART_OF_LABEL
        ? h("span", { class: "group-name" }, group, h("br"), percent(part)) : null))),
    h("p", { class: "tower-name" }, comparing() ? h("b", {}, `${COLUMNS[place]} ${presetOf(config) || ""} `) : null,
      UNITS[state.measure].short(counted.total[state.measure])));
}

// Factors with a sum below 1 would leave room empty.
const growing = (part) => `flex-grow:${(part * 1e4).toFixed(3)}`;

const pieceOf = ({ id, kind, part, text }) => h("span", {
  class: `piece-up k-${kind}${boxNow(state.chosen).split("/")[0] === id ? " chosen" : ""}`,
  style: growing(part), "data-piece": id, title: `${id}: ${percent(part)}, ${text}`,
});

// The groups of a model from the inputs on, each with its pieces.
function groupsOf(config, counted) {
  const whole = counted.total[state.measure];
  const piece = (id, kind, amount) => ({ id, kind, part: share(amount, whole), text: UNITS[state.measure].short(amount) });
  const amountOf = (row) => counted.byRow[row.name][state.measure];
  const { before, block, after } = graphOf(config);
  const outside = (rows) => rows.filter((row) => amountOf(row)).map((row) => piece(row.name, row.kind, amountOf(row)));
  const inside = (n, times) => ["attention", "feedforward", "joint"].map((kind) => {
    const rows = block.filter((row) => (["attention", "feedforward"].includes(row.kind) ? row.kind : "joint") === kind);
    const amount = sum(rows.map(amountOf)) * times;
    return piece(n ? filled(rows[0].name, n, config) : ENCODER, kind, amount);
  });
  const blocks = config.L > MOST_DRAWN_BLOCKS ? inside(0, BigInt(config.L))
    : Array.from({ length: config.L }, (_, place) => inside(place + 1, 1n)).flat();
  const groups = new Map([["embeddings", outside(before)], ["encoder", blocks]]);
  for (const row of after) groups.set(row.group, [...(groups.get(row.group) || []), ...outside([row])]);
  return [...groups].map(([name, pieces]) => ({
    name, pieces: pieces.filter(({ part }) => part), amount: counted.byGroup[name][state.measure],
    part: share(counted.byGroup[name][state.measure], whole),
  })).filter(({ part }) => part);
}

// A pointer's shortcut: the figure has the same layers as boxes, which the keyboard reaches.
function watchScale() {
  $("scale").addEventListener("click", (event) => {
    const piece = event.target.closest("[data-piece]");
    if (!piece) return;
    state.active = COLUMNS.indexOf(piece.closest("[data-tower]").dataset.tower);
    render("values");
    go(piece.dataset.piece);
  });
  $("scale").addEventListener("pointerover", (event) => light(drawing(), event.target.closest("[data-piece]")?.dataset.piece));
  $("scale").addEventListener("pointerleave", () => light(drawing()));
}
