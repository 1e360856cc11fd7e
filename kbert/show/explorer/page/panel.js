// The panel of what is chosen.

const FORMATS = {
  kbert: "kbert", google: "Google", transformers: "transformers", keras_hub: "KerasHub",
  keras_bert: "keras_bert",
};

function drawPanel() {
  $("panel").replaceChildren(...panelOf(state.chosen));
}

function panelOf(id) {
  const layer = layerNow(id);
  if (layer) return layerPanel(layer);
  return id === ENCODER ? encoderPanel() : overview();
}

const COSTS = generic ? ["params"] : ["params", "flops", "kept"];

const dim = (text) => h("span.dim", text);
const section = (title, ...children) => h("section", h("h3", title), ...children);
const bigNumber = (amount, ...more) =>
  h("p.big", h("b", grouped(amount)), ...more);

function heading(kind, title, under) {
  return h(`header.panel-head.k-${kind}`,
    h("span.dot", { "aria-hidden": "true" }),
    h("div", h("h2", { id: "panel-title", tabindex: -1 }, title), h("p.dim", under)));
}

function layerPanel(layer) {
  const { row, part, head } = layer;
  const key = part ? layer.partTemplate : layer.template;
  const source = part || row;
  const note = DATA.notes[key] || {};
  const under = part ? `part of ${layer.id.split("/")[0]}`
    : [row.type, row.group].filter(Boolean).join(" · ");
  const costs = COSTS.map((measure) =>
    costSection(measure, source[measure], countsNow().byRow[key]));
  return [
    heading(row.kind, part ? partTitle(layer) : layer.id, under),
    note.does && h("p", note.does),
    ...(head ? [headSection(layer)] : [shapeSection(source), ...costs]),
    part ? partSection(layer) : connectionSection(layer),
    head ? null : variableSection(layer),
    documentSection(layer, key, note),
  ].filter(Boolean);
}

function partTitle({ part, head }) {
  const { A, H } = current();
  if (head) return `Head ${head} of ${A}`;
  return part.name === "heads" ? `${A} heads of ${H / A}` : part.title;
}

function shapeSection(source) {
  const shape = shapeNow(source.output_shape);
  const inLetters = shape === source.output_shape ? null : dim(` ${source.output_shape}`);
  return section("Output shape", h("p", h("code", shape), inLetters));
}

function costSection(measure, formula, costs) {
  const amount = costs[measure];
  const { noun, short: shorten } = UNITS[measure];
  const title = { params: "Parameters", flops: "FLOPs, forward", kept: "Bytes" }[measure];
  const part = share(amount, countsNow().total[measure]);
  return section(title,
    bigNumber(amount, measure === "kept" && ` ${noun}, kept for the backward pass`,
      measure !== "params" && amount > 0 && dim(` ${shorten(amount)}`)),
    amount > 0 && h("p.share-line", h("progress", { value: part, "aria-hidden": "true" }),
      `${percent(part)} of the whole`),
    amount > 0 && !generic && h("div.formula",
      formulaMath(formula, false), dim("="), formulaMath(formula, true)),
    measure === "kept" && costs.params > 0 &&
      h("p", `${grouped(costs.bytes)} bytes of weights `, dim(bytes(costs.bytes))));
}

// One head's part: H/A columns of W_Q, W_K and W_V with their biases, H/A rows of W_O.
function headSection({ head }) {
  const { A, H } = current();
  const wide = H / A;
  const slice = `${grouped((head - 1) * wide)} … ${grouped(head * wide - 1)}`;
  return section("Its slices",
    h("p", `Columns ${slice} of W_Q, W_K and W_V, each ${grouped(H)} × ${wide}, with ` +
      `${wide} of each bias; rows ${slice} of W_O.`));
}

function partSection(layer) {
  const [attention] = layer.id.split("/");
  const heads = Array.from({ length: Math.min(current().A, MOST_MARKS) }, (_, place) =>
    layerButton(`${attention}/head-${place + 1}`, String(place + 1), `Head ${place + 1}`));
  return section("In this attention", h("div.chips", layerButton(attention, "the whole layer")),
    h("div.chips", { role: "group", "aria-label": "Heads" }, dim("Heads"), heads));
}

function layerButton(id, label, told) {
  return button(label, () => go(id), {
    class: "chip", "aria-label": told, "aria-current": state.chosen === id ? "true" : null,
  });
}

function connectionSection(layer) {
  const { inputs, outputs } = connections(layer, current());
  return section("Connections", linkList("reads", inputs, "what the user gives"),
    linkList("read by", outputs, "is an output of the model"));
}

function linkList(title, links, none = "") {
  const items = links.map(({ name, tensor }) => h("li", layerButton(name, name),
    tensor ? dim(` output ${tensor}`) : ""));
  return h("div.links", dim(title), items.length ? h("ul", items) : none);
}

function variableSection(layer) {
  const variables = variablesOf(layer, current());
  if (!variables.length) return null;
  const shapeText = (shape) => dim(shape ? ` ${shapeNow(shape)}` : "");
  const nameIn = ({ names, shapes }, format) => h("td", names[format]
    ? [h("code", broken(names[format])), shapeText(shapes[format])]
    : dim("has no name for it"));
  const namesOf = (one) =>
    tableOf({ class: "names", "aria-label": `${one.variable} in each format` }, [],
      Object.entries(FORMATS).map(([format, title]) => [title, nameIn(one, format)]));
  return section(variables.length > 1 ? `${variables.length} variables` : "1 variable",
    variables.map((one) => h("div.variable",
      h("h4", one.variable, shapeText(one.shapes.kbert)),
      changedSizes(current()).length ? null : weightFigures(one.place),
      generic ? null : namesOf(one))));
}

// A long name that may break after its separators.
function broken(name) {
  return name.split(/(?<=[/._])/).flatMap((piece, place) => (place ? [h("wbr"), piece] : [piece]));
}

function documentSection(layer, key, note) {
  const printed = layer.part ? null : DATA.document[layer.template];
  const errata = layer.head ? [] : DATA.errata.filter((one) => one.layers.includes(layer.template))
    .filter((one) => namesOnlyLayersOf(one.true))
    .filter((one) => !layer.part || (one.document === "000" && layer.part.name === "query"));
  const lines = note.document ? [h("p", note.document)] : [];
  if (printed && layer.n <= 12) {
    const here = [shapeNow(layer.row.output_shape), countsNow().byRow[key].params];
    const same = printed[0] === here[0] && BigInt(printed[1]) === here[1];
    lines.push(h("p", "Its table, for base with 512 tokens: ", h("code", printed[0]),
      `, ${grouped(printed[1])}. `,
      same ? "The same here." : dim(`Here: ${here[0]}, ${grouped(here[1])}.`)));
  }
  lines.push(...errata.map(erratum));
  const title = 'In the article "Understanding BERT architecture"';
  return lines.length ? section(title, ...lines) : null;
}

function erratum(one) {
  return h("div.erratum",
    h("p", h("b", `${one.source_says}: `), one.says, "."),
    h("p", h("b", "Correct: "), one.true, "."), h("p.dim", one.arithmetic));
}

// Whether the layers that a text names are all in the graph.
function namesOnlyLayersOf(text) {
  const named = text.match(/\b(?:Input|Embedding|MLM|NSP)-[A-Z]\w+/g) || [];
  return named.every(layerNow);
}

function encoderPanel() {
  const counted = countsNow();
  const { L } = current();
  const lines = MEASURES.map((measure) => {
    const { title, short: shorten } = UNITS[measure];
    const all = counted.encoder[measure];
    return [title, shorten(counted.block[measure]), shorten(all),
      percent(share(all, counted.total[measure]))];
  });
  const number = h("input", {
    type: "number", id: "open-number", min: 1, max: L, value: state.open || 1,
    required: true, "aria-label": "Block to open",
  });
  const open = (event) => {
    event.preventDefault();
    act("open", Number(number.value));
  };
  return [
    heading("encoder", state.open ? `Encoder ${state.open} of ${L}` : "Encoder",
      L === 1 ? "1 block" : `${grouped(L)} blocks, alike but for their weights`),
    h("p", DATA.notes.encoder.does),
    tableOf({ class: "sums" }, ["", "a block", "all", "of the whole"], lines),
    section("Open a block", h("form.chips", { onsubmit: open }, number,
      h("button", { type: "submit" }, "Open"),
      state.open ? button("Close", () => act("close")) : null)),
  ];
}

function overview() {
  const { params } = countsNow().total;
  const own = !changedSizes(current()).length;
  const facts = [generic ? "" : `${DATA.family}, head ${DATA.head}`, own && DATA.origin];
  const number = generic ? ` in ${grouped(DATA.graphs.all.before.length)} layers` : "";
  // what is said of published totals, where the total here is one of them
  const published = DATA.errata.filter(({ preset, arithmetic }) =>
    preset && arithmetic.split(/[^\d,]+/).includes(grouped(params)));
  const missing = own && DATA.missing ? DATA.missing.join(", ") : "";
  return [
    heading(generic ? "other" : "encoder", nameOf(current()), facts.filter(Boolean).join(" · ")),
    missing && warning(`Not in the checkpoint, so not trained: ${missing}.`),
    bigNumber(params, ` parameters${number}`),
    h(generic ? "p.warning" : "p", DATA.notes.model.does),
    $("keys").content.cloneNode(true),
    published.length > 0 && section("Of the totals", ...published.map(erratum)),
    section("What is counted", ...DATA.conventions.map((text) => h("p.dim", text))),
  ].filter(Boolean);
}
