// The figure as a list, on a phone: a row per layer, from the inputs down to the outputs, with bars
// to scale. Blocks are one row, until one is opened. A page with a sentence has a column instead.

function drawList() {
  const list = $("layers");
  const shown = phone.matches;
  const focused = list.contains(document.activeElement) ? markOf(document.activeElement) : null;
  list.hidden = !shown;
  pane().inert = shown;  // it lies beside the screen, for the downloads
  list.replaceChildren();
  if (!shown) return;

  list.append(h("p.dim", "From the inputs, at the top, to the outputs."),
    h("ol", listRows()));
  if (focused) elementOf(focused)?.focus({ preventScroll: true });
}

function listRows() {
  const config = current();
  const { before, block, after } = graphOf(config);
  const rows = (all) => all.map((row) => listRow(describeLayer(idOf(row.name, config))));
  if (!state.open) return [rows(before), generic ? null : blocksRow([1, config.L]), rows(after)];
  const open = rows(block);
  const attention = block.findIndex((row) => row.name === NAMES.attention);
  open[attention].append(attentionParts());
  return [
    rows(before),
    state.open > 1 && blocksRow([1, state.open - 1]),
    h("li.open-block",
      h("div.open-head", h("b", `Encoder ${state.open} of ${config.L}`),
        button("Close", () => act("close"), { class: "small", "data-row": "close" })),
      h("ol", open)),
    state.open < config.L && blocksRow([state.open + 1, config.L]),
    rows(after),
  ];
}

// A row: a button with a name, an amount, and a bar as long as the layer's part of the whole.
function listRow(one, attributes = {}, ...more) {
  return h(`li.k-${one.kind}`, h("button.row", {
    type: "button", "data-row": one.id, "aria-label": one.told,
    "aria-pressed": String(Boolean(state.chosen) && boxNow(state.chosen) === one.id),
    onclick: () => go(one.id), ...attributes,
  }, h("span.name", one.name), h("span.amount", one.label),
  h("span.dim", one.facts),
  one.fraction > 0.004 && h("span.part", { style: `width:${(one.fraction * 100).toFixed(1)}%` })),
  more);
}

// Blocks that are alike, as one row, with a button for each that opens it.
function blocksRow([first, last]) {
  const nearest = state.open < first ? first : last;
  const row = listRow(describeBlocks([first, last]), {
    "data-row": state.open ? `blocks-${first}` : ENCODER,
    onclick: () => (state.open ? act("open", nearest) : go(ENCODER)),
  }, h("div.block-numbers", { role: "group", "aria-label": "Open a block" },
    marks(first, last, 1, 1).map(({ number, last: end }) =>
      button(rangeText(number, end), () => act("open", number), {
        "data-row": `open-${number}`, "aria-label": `Open block ${rangeText(number, end)}`,
      }))));
  row.classList.add("blocks");
  return row;
}

function attentionParts() {
  const attention = idOf(NAMES.attention, current());
  const label = `${state.attention ? "Close" : "Open"} its parts: W_Q, W_K, W_V, heads, W_O`;
  const opener = button(label, () => act("attention"), {
    class: "small", "data-row": "parts", "aria-expanded": String(state.attention),
  });
  const parts = DATA.parts.map(({ name }) =>
    listRow(describeLayer(`${attention}/${name}`)));
  return h("div.parts", opener, state.attention && h("ol", parts));
}
