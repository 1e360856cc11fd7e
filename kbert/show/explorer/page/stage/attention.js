// Self-attention: queries, keys, values, scores, softmax, context of one head.

const ATTENTION_STEPS = ["query", "key", "value", "scores", "probs", "context"];

function drawAttention(scene) {
  const { trace, layer, block, tokens, token } = scene;
  const name = `Encoder-${block}-MultiHeadSelfAttention`;
  const parts = Object.fromEntries(ATTENTION_STEPS.map((step) => [step, trace.tensors.get(`${name}/${step}`)]));
  if (ATTENTION_STEPS.some((step) => !parts[step])) return null;
  const kinds = headKinds(parts.probs, tokens);
  const head = Number(/head-(\d+)$/.exec(layer)?.[1] || tellingHead(kinds) + 1) - 1;
  const shown = tokens.map((_, n) => n).filter((n) => !(stage.hidesSpecial && isAdded(tokens[n])));
  if (stage.hidesSpecial && !shown.includes(token)) shown.unshift(token);
  const view = { ...scene, name, parts, kinds, head: Math.min(head, kinds.length - 1), shown, width: parts.query.shape[2] };
  view.probs = headMap(parts.probs, view.head);
  view.scores = headMap(parts.scores, view.head);
  view.column = chooseColumn(view);
  view.headsOff = headsOff(view);
  view.isOff = view.headsOff.has(view.head + 1);
  return {
    kind: "attention",
    title: headTitle(view),
    formula: "Attention(Q, K, V) = softmax(frac{Q K^T}{sqrt{d}}) V",
    spoken: "attention is the softmax of Q times K transposed over the root of d, times V",
    source: `Vaswani et al. 2017, section 3.2, equation 1; d = H ÷ A = ${view.width}`,
    sees: seeAttention(view),
    controls: [hideControl(view)],
    body: [headChooser(view), ...attentionBody(view), headsTogether(view)],
    table: () => attentionTable(view),
  };
}

// The numbers of this block's heads that are switched off.
const headsOff = ({ trace, block }) =>
  new Set((trace.request.off?.heads || []).filter(([number]) => number === block).map(([, number]) => number));

// The token that most attention goes to, where none was chosen.
function chooseColumn({ probs, tokens, token, shown }) {
  if (stage.column !== null && shown.includes(stage.column)) return stage.column;
  return shown[largestIndex(shown.map((column) => probs[token * tokens.length + column]))];
}

function headTitle({ head, kinds, tokens }) {
  const { target } = kinds[head];
  return `Head ${head + 1} of ${kinds.length}${target ? ` looks at ${targetText(target, tokens)}` : ""}`;
}

// On average over the tokens: the head's target, or where most of the rest goes.
function averageText({ kinds, head, tokens }) {
  const { shares, target } = kinds[head];
  const name = target || wordTarget(shares);
  return `on average ${percent(shares[name])} go to ${targetText(name, tokens)}`;
}

function seeAttention(view) {
  const { tokens, token, probs, head, kinds, shown } = view;
  const row = tokens.map((_, column) => probs[token * tokens.length + column]);
  const most = largestIndex(row);
  const to = most === token ? "itself" : `${quoted(tokens[most])}${isAdded(tokens[most]) ? "" : ` at position ${most + 1}`}`;
  const hidden = tokens.length - shown.length;
  const added = [...new Set(tokens.filter(isAdded).map(({ text }) => text))].join(" and ");
  const special = `${percent(specialShare(kinds[head].shares))} to ${added}${hidden ? ", which are hidden here" : ""}`;
  return `${quoted(tokens[token])} gives ${row[most] > 0.5 ? "most" : "the largest part"} of its attention, ${percent(row[most])}, to ${to}; ` +
    `${averageText(view)}, ${special}.${view.isOff ? " This head is switched off." : ""}${
      view.trace.request.off?.attention?.includes(view.block) ? " This block’s attention is switched off: its output is set to 0." : ""}`;
}

function hideControl({ tokens }) {
  const box = h("input", { type: "checkbox", "data-key": "hide", checked: stage.hidesSpecial, onchange: () => {
    stage.hidesSpecial = box.checked;
    redrawStage();
  } });
  return tokens.some(isAdded) ? h("label", { class: "stage-control" }, box, "Hide special tokens") : null;
}

// Every head of the block as a small map, with what it looks at.
function headChooser({ parts, kinds, head, tokens, name, headsOff: off }) {
  const heads = kinds.map(({ target }, n) => h("button", {
    type: "button", class: "head-choice", "data-key": `head-${n + 1}`, "aria-pressed": String(n === head),
    "aria-label": `Head ${n + 1}${target ? `, looks at ${targetText(target, tokens)}` : ""}${off.has(n + 1) ? ", switched off" : ""}`,
    onclick: () => { stage.column = null; go(`${name}/head-${n + 1}`); },
  }, heatCanvas(headMap(parts.probs, n), tokens.length, "weights", 1),
  h("span", {}, h("b", {}, n + 1), off.has(n + 1) ? " off" : target ? ` ${target.startsWith("[") ? targetText(target, tokens) : target}` : "")));
  return h("div", {
    class: "head-choices", role: "group", "aria-label": "Heads of this block",
    style: `--in-row:${stage.width < 560 ? 6 : kinds.length <= 12 ? kinds.length : 8}`,
  }, heads);
}

// The tensors of the head from left to right, and the arithmetic of one cell; both follow a pointer.
function attentionBody(view) {
  const { tokens, shown } = view;
  const cell = Math.max(3, Math.min(22, Math.floor(Math.min(352, stage.width - 150) / shown.length)));
  const rows = shown.map((n) => tokens[n]);
  const arithmetic = h("div", { class: "stage-cards" });
  const figures = attentionFigures(view, rows, cell, (row, column) => show(row, column));
  const show = (row, column) => {
    if (column !== null) view.column = column;
    const place = (n) => (n === null ? null : shown.indexOf(n));
    for (const [figure, axes] of figures) {
      markMap(figure, axes.row === null ? null : place(axes.row === "key" ? view.column : row),
        axes.column === null ? null : place(view.column));
    }
    arithmetic.replaceChildren(...cellArithmetic({ ...view, row }));
  };
  show(view.token, view.column);
  const [query, key, scores, probs, value, context] = figures.map(([figure]) => figure);
  const sign = (text, label) => h("span", { class: "flow-sign", "aria-hidden": "true" }, text, label ? h("small", {}, label) : null);
  return [
    h("div", { class: "attention-flow" }, query, sign("·"), key, sign("→", "÷ √d"), scores, sign("→", "softmax"), probs,
      sign("·"), value, sign("→"), context),
    pairControls(view, show),
    arithmetic,
  ];
}

function attentionFigures(view, rows, cell, show) {
  const { parts, head, shown, tokens, width, scores, probs } = view;
  const vectors = (tensor) => {
    const values = new Float32Array(shown.length * width);
    shown.forEach((n, row) => values.set(headVector(tensor, n, head), row * width));
    return values;
  };
  const square = (map) => Float32Array.from(shown.flatMap((row) => shown.map((column) => map[row * tokens.length + column])));
  const pick = (row, column, event) => {
    if (event.type === "pointerdown") stage.column = shown[column];
    show(shown[row], shown[column]);
  };
  const narrow = (name, under, tensor, axis) => [heatMap({ name, under, values: vectors(tensor), rows, columns: width, cell,
    spoken: `${name}: ${rows.length} tokens, ${width} numbers each`,
    onPick: (row, column) => (axis === "key" ? show(view.token, shown[row]) : show(shown[row], null)) }), { row: axis, column: null }];
  const wide = (name, under, map, options) => [heatMap({ name, under, values: square(map), rows, columns: rows, cell, onPick: pick,
    spoken: `${name}: a row per token that asks, a column per token that is asked`, ...options }), { row: "query", column: "key" }];
  return [
    narrow("Q", "what each looks for", parts.query, "query"),
    narrow("K", "what each offers", parts.key, "key"),
    wide("Scores", "how well they match", scores, {}),
    wide("Softmax", "each row adds up to 100 %", probs, { kind: "weights", limit: 1 }),
    narrow("V", "what each passes on", parts.value, "key"),
    narrow("Context", "what each collected", parts.context, "query"),
  ];
}

// The cell by name: for keyboards, screen readers and fingers.
function pairControls(view, show) {
  const { tokens, shown, token } = view;
  const options = tokenOptions(tokens).filter(({ value }) => shown.includes(value));
  return h("div", { class: "stage-controls" },
    h("h3", {}, "One cell, written out"),
    selectControl("from", "from", options, token, chooseToken),
    selectControl("to", "to", options, view.column, (column) => { stage.column = column; show(token, column); }));
}

// All heads side by side, and what W_O makes of them.
function headsTogether({ trace, name, parts, token, head, width }) {
  const output = vectorOf(trace, name, token);
  if (!output) return null;
  const context = vectorOf(trace, `${name}/context`, token);
  const drawn = heatRows([{ name: "all heads", values: context }, { sign: "↓", name: "after W_O", values: output }], {});
  const [first, heads] = [head * width, parts.context.shape[1]];
  drawn.querySelector(".heat-row").append(h("i", { class: "heat-range",
    style: `left:${(first / context.length) * 100}%;width:${100 / heads}%` }));
  return stageCard("All heads side by side, mixed by W_O", drawn,
    h("p", { class: "dim" }, `The frame marks head ${head + 1}: dimensions ${first + 1} to ${first + width}. ` +
      "Vaswani et al. 2017, section 3.2.2."));
}

function attentionTable({ tokens, token, probs, scores, shown }) {
  const size = tokens.length;
  return {
    columns: [`from ${tokens[token].text} to`, "score", "attention"],
    rows: shown.map((n) => [tokens[n].text, decimal(scores[token * size + n]), percent(probs[token * size + n])]),
  };
}
