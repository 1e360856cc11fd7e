// The figure as a list, on a phone: a row per layer, from the inputs down to the outputs, with bars
// to scale. Blocks are one row, until one is opened.

function drawList() {
  const list = $("layers");
  const shown = phone.matches && !(live && sentenceShown());  // with a sentence the figure is a column itself
  const focused = list.contains(document.activeElement) ? markOf(document.activeElement) : null;
  list.hidden = !shown;
  drawing().parentElement.inert = shown;  // it lies beside the screen, for the downloads
  list.replaceChildren(...(shown ? (generic ? genericList() : layerList(current())) : []));
  if (focused) elementOf(focused)?.focus({ preventScroll: true });
}

function layerList(config) {
  const counted = count(config);
  const { before, after } = graphOf(config);
  const rows = (all) => all.map((row) => layerRow(row.name, config, counted));
  return [
    h("p", { class: "dim" }, "From the inputs, at the top, to the outputs."),
    h("ol", {}, rows(before), encoderRows(config, counted), rows(after)),
  ];
}

function genericList() {
  return [h("ol", {}, DATA.generic.rows.map((row) => listRow({
    id: row.name, kind: row.kind, name: row.name, facts: `${row.type} ${row.shape}`,
    label: row.params ? grouped(row.params) : "",
  })))];
}

// A row: a button with a name, an amount, and a bar as long as the layer's part of the whole.
function listRow({ id, kind, name, facts, label, told, part = 0, inner = "", attributes = {} }) {
  return h("li", { class: `k-${kind}` }, h("button", {
    type: "button", class: `row ${inner}`, "data-row": id, "aria-label": told,
    "aria-pressed": String(Boolean(state.chosen) && boxNow(state.chosen) === id), onclick: () => go(id), ...attributes,
  }, h("span", { class: "name" }, name), h("span", { class: "amount" }, label),
  h("span", { class: "dim" }, facts),
  part > 0.004 ? h("span", { class: "part", style: `width:${(part * 100).toFixed(1)}%` }) : null));
}

function layerRow(template, config, counted) {
  const id = filled(template, state.open, config);
  const { row } = layerOf(id, config);
  const amount = counted.byRow[template][state.measure];
  const shape = shapeOf(row.output_shape, config);
  return listRow({
    id, kind: row.kind, name: id.replace(/^Encoder-\d+-/, ""), facts: shape,
    label: amount ? UNITS[state.measure].text(amount) : "", part: share(amount, counted.total[state.measure]),
    told: `${id}, ${row.type}, output ${shape}, ${toldAmount(amount)}`,
  });
}

function encoderRows(config, counted) {
  if (!state.open) return [h("li", { class: "blocks k-encoder" }, blocksRow("Encoder", 1, config.L, config, counted),
    blockButtons(1, config.L))];
  const around = (first, last) => (last < first ? null : h("li", { class: "blocks k-encoder" },
    blocksRow(`Encoder ${rangeText(first, last)}`, first, last, config, counted), blockButtons(first, last)));
  return [around(1, state.open - 1), openBlock(config, counted), around(state.open + 1, config.L)].filter(Boolean);
}

// Blocks that are alike, as one row: × 12.
function blocksRow(name, first, last, config, counted) {
  const number = last - first + 1;
  const { short: shorten, noun } = UNITS[state.measure];
  const one = counted.block[state.measure];
  const all = one * BigInt(number);
  const row = listRow({
    id: first === 1 && last === config.L ? ENCODER : `blocks-${first}`, kind: "encoder", name,
    label: `× ${grouped(number)}`, facts: `${shorten(one)} each, ${shorten(all)} in all`,
    part: share(all, counted.total[state.measure]), told: `${name}, ${number} blocks alike, ${grouped(all)} ${noun} in all`,
    attributes: { onclick: () => (state.open ? act("open", state.open < first ? first : last) : go(ENCODER)) },
  });
  return row.firstChild;
}

function blockButtons(first, last) {
  return h("div", { class: "block-numbers", role: "group", "aria-label": "Open a block" },
    marks(first, last, 1, 1).map(({ number, last: end }) => button(rangeText(number, end), () => act("open", number), {
      "data-row": `open-${number}`, "aria-label": `Open block ${rangeText(number, end)}`,
    })));
}

function openBlock(config, counted) {
  const rows = graphOf(config).block.map((row) => {
    const line = layerRow(row.name, config, counted);
    if (row.name === NAMES.attention) line.append(attentionParts(config, counted));
    return line;
  });
  return h("li", { class: "open-block" },
    h("div", { class: "open-head" }, h("b", {}, `Encoder ${state.open} of ${config.L}`),
      button("Close", () => act("close"), { class: "small", "data-row": "close" })),
    h("ol", {}, rows));
}

function attentionParts(config, counted) {
  const attention = filled(NAMES.attention, state.open, config);
  const opener = button(state.attention ? "Close its parts" : "Open its parts: W_Q, W_K, W_V, heads, W_O",
    () => act("attention"), { class: "small", "data-row": "parts", "aria-expanded": String(state.attention) });
  if (!state.attention) return h("div", { class: "parts" }, opener);
  const rows = DATA.parts.map((part) => {
    const amount = counted.byRow[`${NAMES.attention}/${part.name}`][state.measure];
    const name = partTitle({ part }, config);
    return listRow({
      id: `${attention}/${part.name}`, kind: "attention", name, inner: "inner", facts: shapeOf(part.output_shape, config),
      label: amount ? UNITS[state.measure].text(amount) : "", part: share(amount, counted.total[state.measure]),
      told: `${name} of ${attention}, ${toldAmount(amount)}`,
    });
  });
  return h("div", { class: "parts" }, opener, h("ol", {}, rows));
}

// Brings a layer's row between what lies over the list above and below; with a sentence, its box.
function bringRow(id, block = "center") {
  if (!phone.matches) return;
  const name = CSS.escape(boxNow(id));
  const row = $("layers").querySelector(`[data-row="${name}"]`) || drawing().querySelector(`[data-id="${name}"]`);
  row?.scrollIntoView({ block });
}

function watchList() {
  for (const screen of [phone, tablet]) {
    screen.addEventListener("change", () => {
      showSheet("");
      render("url");
    });
  }
}
