// The panel of what is chosen.

const FORMATS = {
  kbert: "kbert", google: "Google", transformers: "transformers", keras_hub: "KerasHub",
  keras_bert: "keras_bert",
};

function drawPanel() {
  const panel = $("panel");
  if (generic) {
    const row = DATA.generic.rows.find((one) => one.name === state.chosen);
    panel.replaceChildren(...(row ? genericPanel(row) : genericOverview()));
    return;
  }
  const config = current();
  const counted = count(config);
  const layer = layerOf(state.chosen, config);
  if (state.chosen === ENCODER) panel.replaceChildren(...encoderPanel(config, counted));
  else if (layer) panel.replaceChildren(...layerPanel(layer, config, counted));
  else panel.replaceChildren(...overview(config, counted));
}

const section = (title, ...children) => h("section", {}, h("h3", {}, title), ...children);

function heading(kind, title, under, link = true) {
  return h("header", { class: `panel-head k-${kind}` },
    h("span", { class: "dot", "aria-hidden": "true" }),
    h("div", {}, h("h2", { id: "panel-title", tabindex: -1 }, title), h("p", { class: "dim" }, under)),
    link ? button("Link", copyLink, { class: "small", title: "Copy the address of this layer" }) : null);
}

function copyLink(event) {
  keepInUrl(false);
  copyText(`${location.href.split("#")[0]}${toFragment()}`, "The link is copied.", event.currentTarget);
}

function layerPanel(layer, config, counted) {
  const { row, part } = layer;
  const key = part ? layer.partTemplate : layer.template;
  const source = part || row;
  const costs = layer.head ? ofOneHead(config, counted) : counted.byRow[key];
  const title = part ? partTitle(layer, config) : layer.id;
  const under = part ? `part of ${layer.id.split("/")[0]}` : `${row.type} · ${row.group}`;
  const note = DATA.notes[key] || {};
  return [
    heading(row.kind, title, under),
    note.does ? h("p", { class: "does" }, note.does) : null,
    layer.head ? headSection(layer, config) : shapeSection(source, config),
    layer.head ? null : costSection("Parameters", "params", source.params, costs, counted, config),
    layer.head ? null : costSection("FLOPs, forward", "flops", source.flops, costs, counted, config),
    layer.head ? null : costSection("Bytes", "kept", source.kept, costs, counted, config),
    part ? partSection(layer, config) : openSection(layer),
    part ? null : connectionSection(layer, config),
    layer.head ? null : variableSection(layer, config),
    documentSection(layer, key, note, config),
    part ? null : stepSection(layer, config),
  ].filter(Boolean);
}

function partTitle({ part, head }, config) {
  if (head) return `Head ${head} of ${config.A}`;
  return part.name === "heads" ? `${config.A} heads of ${config.H / config.A}` : part.title;
}

function shapeSection(source, config) {
  return section("Output shape",
    h("p", { class: "shape-line" }, h("code", {}, shapeOf(source.output_shape, config)), " ",
      h("span", { class: "dim" }, source.output_shape)));
}

function costSection(title, measure, formula, costs, counted, config) {
  const amount = costs[measure];
  const whole = counted.total[measure];
  const part = share(amount, whole);
  const unit = measure === "kept" ? "bytes of activations, kept for the backward pass" : "";
  const lines = [h("p", { class: "big" },
    h("b", { "data-value": measure }, grouped(amount)), unit ? ` ${unit}` : "",
    amount && measure !== "params" ? h("span", { class: "dim" }, ` ${UNITS[measure].short(amount)}`) : "")];
  if (amount) {
    lines.push(h("p", { class: "share-line" },
      h("span", { class: "bar", "aria-hidden": "true" },
        h("span", { style: `width:${(part * 100).toFixed(2)}%` })),
      `${percent(part)} of the whole`));
    lines.push(h("div", { class: "formula" }, h("span", { class: "letters" }, formulaMath(formula, config, false)),
      h("span", { class: "eq" }, "="), formulaMath(formula, config, true)));
  }
  if (measure === "kept" && costs.params) {
    const width = BigInt(DATA.dtypes[config.dtype][0]);
    lines.push(h("p", {}, `${grouped(costs.params * width)} bytes of weights `,
      h("span", { class: "dim" }, bytes(costs.params * width))));
  }
  return section(title, ...lines);
}

// One head's part: H/A columns of W_Q, W_K and W_V with their biases, H/A rows of W_O.
function headSection({ head }, config) {
  const wide = config.H / config.A;
  const [first, last] = [(head - 1) * wide, head * wide - 1];
  return section("Its slices",
    h("p", {}, `Columns ${grouped(first)} … ${grouped(last)} of W_Q, W_K and W_V, each ` +
      `${grouped(config.H)} × ${wide}, with ${wide} of each bias; rows ${grouped(first)} … ` +
      `${grouped(last)} of W_O.`),
    h("p", {}, `One ${grouped(config.H)} × ${grouped(config.H)} matrix is the ${config.A} of ` +
      `${grouped(config.H)} × ${wide} side by side.`));
}

function ofOneHead(config, counted) {
  return counted.byRow[`${NAMES.attention}/heads`];
}

function partSection(layer, config) {
  const attention = layer.id.split("/")[0];
  const choices = DATA.parts.map((part) => layerButton(`${attention}/${part.name}`, part.title));
  const heads = config.A > MOST_MARKS ? [] : Array.from({ length: config.A }, (_, place) =>
    layerButton(`${attention}/head-${place + 1}`, String(place + 1), `Head ${place + 1}`));
  return section("In this attention", h("div", { class: "chips" }, choices,
    layerButton(attention, "the whole layer")),
  heads.length ? h("div", { class: "chips", role: "group", "aria-label": "Heads" },
    h("span", { class: "dim" }, "Heads"), heads) : null);
}

function openSection(layer) {
  if (layer.template !== NAMES.attention) return null;
  const label = state.attention ? "Close W_Q, W_K, W_V, heads, W_O" : "Open W_Q, W_K, W_V, heads, W_O";
  return h("div", { class: "chips" }, button(label, () => act("attention"), { class: "wide" }));
}

function layerButton(id, label, told) {
  return button(label, () => go(id), {
    class: "chip", "aria-label": told, "aria-current": state.chosen === id ? "true" : null,
  });
}

function connectionSection(layer, config) {
  const { inputs, outputs } = connections(layer, config);
  const list = (title, all) => h("div", { class: "links" }, h("span", { class: "dim" }, title),
    all.length ? h("ul", {}, all.map(({ name, tensor }) => h("li", {}, layerButton(name, name),
      tensor ? h("span", { class: "dim" }, ` output ${tensor}`) : ""))) : h("span", {}, title === "reads" ? "what the user gives" : "is an output of the model"));
  return section("Connections", list("reads", inputs), list("read by", outputs));
}

function variableSection(layer, config) {
  const variables = variablesOf(layer, config);
  if (!variables.length) return null;
  return section(variables.length > 1 ? `${variables.length} variables` : "1 variable",
    variables.map((one) => h("div", { class: "variable" },
      h("h4", {}, one.variable, " ", h("span", { class: "dim" }, numbersOf(one.shapes.kbert, config))),
      changedSizes(config).length ? null : weightFigures(one.place),
      h("table", { class: "names", "aria-label": `${one.variable} in each format` },
        h("tbody", {}, Object.entries(FORMATS).map(([format, title]) => h("tr", {},
          h("th", { scope: "row" }, title),
          h("td", {}, one.names[format] ? h("code", {}, broken(one.names[format])) : h("span", { class: "dim" }, "has no name for it"),
            one.names[format] ? h("span", { class: "dim shape-of" }, ` ${numbersOf(one.shapes[format], config)}`) : "")))))))
    );
}

const numbersOf = (shape, config) => (shape ? shapeOf(shape, config) : "");

// A long name that may break after its separators.
function broken(name) {
  return name.split(/(?<=[/._])/).flatMap((piece, place) => (place ? [h("wbr"), piece] : [piece]));
}

function documentSection(layer, key, note, config) {
  const printed = layer.part ? null : DATA.document[layer.template];
  const errata = layer.head ? [] : DATA.errata.filter((one) => one.layers.includes(layer.template))
    .filter((one) => namesOnlyLayersOf(one.true, config))
    .filter((one) => !layer.part || (one.document === "000" && layer.part.name === "query"));
  const lines = [];
  if (note.document) lines.push(h("p", {}, note.document));
  if (printed && (!layer.n || layer.n <= 12)) {
    const counted = count(config).byRow[key].params;
    const here = shapeOf(layer.row.output_shape, config);
    const same = printed[0] === here && BigInt(printed[1]) === counted;
    lines.push(h("p", {}, "Its table, for base with 512 tokens: ", h("code", {}, printed[0]), `, ${grouped(printed[1])}. `,
      same ? h("span", { class: "ok" }, "The same here.") : h("span", { class: "dim" }, `Here: ${here}, ${grouped(counted)}.`)));
  }
  errata.forEach((one) => lines.push(erratum(one)));
  return lines.length ? section('In the article "Understanding BERT architecture"', ...lines) : null;
}

function erratum(one) {
  return h("div", { class: "erratum" },
    h("p", {}, h("b", {}, `${one.source_says}: `), one.says, "."),
    h("p", {}, h("b", {}, "Correct: "), one.true, "."), h("p", { class: "dim" }, one.arithmetic));
}

// Whether the layers that a text names are all in the graph.
function namesOnlyLayersOf(text, config) {
  const named = text.match(/\b(?:Input|Embedding|MLM|NSP)-[A-Z]\w+/g) || [];
  return named.every((name) => layerOf(name, config));
}

// The layers before and after it in the summary.
function stepSection(layer, config) {
  const around = [layer.n - 1, layer.n, layer.n + 1].filter((n) => n >= 0 && n <= config.L);
  const { before } = graphOf(config);
  let names = around.filter((n) => n).flatMap((n) => instances(config, n).map((one) => one.name));
  const outside = instances(config, 0).map((one) => one.name);
  if (layer.n <= 1) names = [...outside.slice(0, before.length), ...names];
  if (!layer.n || layer.n >= config.L - 1) {
    const last = layer.n ? [] : instances(config, config.L).map((one) => one.name);
    names = [...new Set([...names, ...last]), ...outside.slice(before.length)];
  }
  const place = names.indexOf(layer.id);
  const step = (name, label) => (name ? button(label, () => go(name), { title: name, class: "small" }) : h("span"));
  return h("nav", { class: "steps", "aria-label": "In the summary's order" },
    step(names[place - 1], "‹ before"), step(names[place + 1], "after ›"));
}

function encoderPanel(config, counted) {
  const lines = MEASURES.map((measure) => [UNITS[measure].title, UNITS[measure].short, counted.block[measure], counted.encoder[measure],
    share(counted.encoder[measure], counted.total[measure])]);
  const number = h("input", {
    type: "number", id: "open-number", min: 1, max: config.L, value: state.open || 1, "aria-label": "Block to open",
  });
  const open = (event) => {
    event.preventDefault();
    act("open", Math.min(Math.max(1, Math.round(Number(number.value)) || 1), config.L));
  };
  return [
    heading("encoder", state.open ? `Encoder ${state.open} of ${config.L}` : "Encoder",
      config.L === 1 ? "1 block" : `${grouped(config.L)} blocks, alike but for their weights`),
    h("p", { class: "does" }, "Each block reads the hidden states of the one below: attention, then a feed-forward " +
      "layer, each with dropout, a residual connection and a normalization."),
    h("table", { class: "sums" }, h("thead", {}, h("tr", {}, h("td"), ["a block", "all", "of the whole"].map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", {}, lines.map(([title, shorten, one, all, part]) => h("tr", {}, h("th", { scope: "row" }, title),
        h("td", {}, shorten(one)), h("td", {}, shorten(all)), h("td", {}, percent(part)))))),
    section("Open a block", h("form", { class: "chips", onsubmit: open }, number, h("button", { type: "submit" }, "Open"),
      state.open ? button("Close", () => act("close")) : null),
    config.L <= MOST_MARKS ? h("div", { class: "chips" }, Array.from({ length: config.L }, (_, place) =>
      button(String(place + 1), () => act("open", place + 1), {
        class: "chip", "aria-label": `Open block ${place + 1}`, "aria-current": state.open === place + 1 ? "true" : null,
      }))) : null),
  ].filter(Boolean);
}

// Of no use where there is no keyboard.
function keys(element) {
  element.classList.add("keys-section");
  return element;
}

function overview(config, counted) {
  const own = !changedSizes(config).length;
  // what is said of published totals, where the total here is one of them
  const total = grouped(counted.total.params);
  const whole = DATA.errata.filter(({ preset, arithmetic }) => preset && arithmetic.split(/[^\d,]+/).includes(total));
  return [
    heading("encoder", nameOf(config), `${DATA.family}, head ${DATA.head}${own && DATA.origin ? ` · ${DATA.origin}` : ""}`, false),
    own && DATA.missing && DATA.missing.length ? h("p", { class: "warning" },
      `Not in the checkpoint: ${DATA.missing.join(", ")}.`) : null,
    h("p", { class: "big" }, h("b", {}, total), " parameters"),
    h("p", { class: "does" }, "Choose a layer to see its shape, why it has that many parameters, what it costs, what it is " +
      "called in each format. A number in the encoder opens that block, its attention opens into W_Q, W_K, W_V, " +
      "the heads and W_O. The sliders make another model of it."),
    keys(section("Keys", h("dl", { class: "keys" },
      [["/", "search"], ["← ↑ → ↓", "from box to box"], ["Enter", "choose, open"], ["Esc", "close, choose nothing"],
        ...(live ? [["↑ ↓", "outside of boxes: the next block"], ["Alt ← →", "at a token: swap its word with the next one"]]
          : [["+ − 0", "zoom, fit"], ["Ctrl + wheel", "zoom; drag to pan"]])]
        .flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])))),
    whole.length ? section("Of the totals", ...whole.map(erratum)) : null,
    section("What is counted", ...DATA.conventions.map((text) => h("p", { class: "dim" }, text))),
  ].filter(Boolean);
}

function genericPanel(row) {
  const inputs = inputsOf(row.connected_to);
  const outputs = DATA.generic.rows.flatMap((one) => inputsOf(one.connected_to)
    .filter((input) => input.name === row.name).map((input) => ({ name: one.name, tensor: input.tensor })));
  const chips = (all) => h("ul", {}, all.map(({ name }) => h("li", {}, layerButton(name, name))));
  const places = Object.keys(DATA.tensors).filter((place) => place.startsWith(`${row.name}/`));
  return [
    heading(row.kind, row.name, row.type),
    section("Output shape", h("p", {}, h("code", {}, row.shape))),
    section("Parameters", h("p", { class: "big" }, h("b", { "data-value": "params" }, grouped(row.params)))),
    section("Connections", h("div", { class: "links" }, h("span", { class: "dim" }, "reads"), chips(inputs)),
      h("div", { class: "links" }, h("span", { class: "dim" }, "read by"), chips(outputs))),
    places.length ? section("Variables", places.map((place) => h("div", { class: "variable" },
      h("h4", {}, place.slice(row.name.length + 1)), weightFigures(place)))) : null,
  ].filter(Boolean);
}

function genericOverview() {
  const rows = DATA.generic.rows;
  const total = rows.reduce((all, row) => all + row.params, 0);
  return [
    heading("other", DATA.title, DATA.origin, false),
    h("p", { class: "warning" }, "This model is not a graph that kbert builds: its layers are drawn as they are, " +
      "without formulas, costs or another configuration."),
    h("p", { class: "big" }, h("b", {}, grouped(total)), ` parameters in ${grouped(rows.length)} ${rows.length === 1 ? "layer" : "layers"}`),
  ];
}
