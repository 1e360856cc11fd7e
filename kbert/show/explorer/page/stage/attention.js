// Self-attention: queries, keys, values, scores, softmax, context of one head.

const ATTENTION_STEPS = ["query", "key", "value", "scores", "probs", "context"];

// A head's tensors in the order of the arithmetic, each with the sign before it. Of the vectors,
// one row is lit: of the token that asks (row), or of the one that is asked (column).
const ATTENTION_MAPS = [
  { step: "query", name: "Q", under: "what each looks for", lit: "row" },
  { step: "key", name: "K", under: "what each offers", lit: "column", sign: "·" },
  { step: "scores", name: "Scores", under: "how well they match", sign: "→" },
  { step: "probs", name: "Softmax", under: "each row adds up to 100 %", sign: "→" },
  { step: "value", name: "V", under: "what each passes on", lit: "column", sign: "·" },
  { step: "context", name: "Context", under: "what each collected", lit: "row", sign: "→" },
];

function drawAttention(scene) {
  const { trace, layer, block, tokens, token, config } = scene;
  const name = `Encoder-${block}-MultiHeadSelfAttention`;
  const parts = Object.fromEntries(ATTENTION_STEPS
    .map((step) => [step, trace.tensors.get(`${name}/${step}`)]));
  if (!parts.probs) return null;  // a recording may lack the others
  const kinds = headKinds(parts.probs, tokens);
  const number = /head-(\d+)$/.exec(layer)?.[1];
  const head = number ? Number(number) - 1 : tellingHead(kinds);
  const isShown = (n) => n === token || !state.hidesSpecial || !isMarker(tokens[n]);
  const view = {
    ...scene, name, parts, kinds, head,
    probs: headMap(parts.probs, head),
    scores: parts.scores && headMap(parts.scores, head),
    shown: tokens.map((_, n) => n).filter(isShown),
    width: config.H / config.A,
    headsOff: headsOff(scene),
  };
  view.column = chooseColumn(view);
  view.isOff = view.headsOff.has(head + 1);
  const { target } = kinds[head];
  view.isBlockOff = Boolean(trace.request.off?.attention?.includes(block));
  const isWhole = !view.isOff && !view.isBlockOff;
  const looks = target && isWhole ? ` looks at ${targetText(target, tokens)}` : "";
  return {
    title: `Head ${head + 1} of ${kinds.length}${looks}`,
    formula: "Attention(Q, K, V) = softmax(frac{Q K^T}{sqrt{d}}) V",
    source: `Vaswani et al. 2017, section 3.2, equation 1; d = H ÷ A = ${view.width}`,
    sees: seeAttention(view),
    body: [headChooser(view), attentionLines(view), ...attentionBody(view)],
    table: () => attentionTable(view),
  };
}

const headsOff = ({ trace, block }) => new Set((trace.request.off?.heads || [])
  .filter(([number]) => number === block).map(([, number]) => number));

// Changes what is shown of attention.
function setAttention(change) {
  Object.assign(state, change);
  keepSentenceInUrl();
}

function goToHead(block, head) {
  state.to = -1;
  go(`Encoder-${block}-MultiHeadSelfAttention/head-${head + 1}`);
}

// The token that most attention goes to, where none was chosen.
function chooseColumn({ probs, tokens, token, shown }) {
  if (shown.includes(state.to)) return state.to;
  return shown[largestIndex(shown.map((column) => probs[token * tokens.length + column]))];
}

function seeAttention({ tokens, token, probs, head, kinds, shown, isOff, isBlockOff }) {
  const row = probs.subarray(token * tokens.length, (token + 1) * tokens.length);
  const most = largestIndex(row);
  const { shares, target } = kinds[head];
  const kind = target || wordTarget(shares);
  const added = [...new Set(tokens.filter(isMarker).map(({ text }) => text))].join(" and ");
  const hidden = shown.length < tokens.length ? ", which are hidden here" : "";
  const to = most === token ? "itself" : `${quoted(tokens[most])} at position ${most + 1}`;
  return [
    `${quoted(tokens[token])} gives the largest part of its attention, ${percent(row[most])}, ` +
      `to ${to}; on average ${percent(shares[kind])} go to ${targetText(kind, tokens)}, ` +
      `${percent(specialShare(shares))} to ${added}${hidden}.`,
    isOff ? "This head is switched off." : "",
    isBlockOff ? "This block’s attention is switched off." : "",
  ].join(" ");
}

function attentionBody(view) {
  const { parts, tokens, shown, token } = view;
  const steps = ATTENTION_MAPS.filter(({ step }) => parts[step]);
  const arithmetic = h("div.stage-cards", {});
  let cell = [];
  const maps = steps.map((of) => attentionMap(view, of, (...at) => show(...at)));
  const show = (row, column) => {
    if (cell[0] === row && cell[1] === column) return;
    cell = [row, column];
    const places = { row: shown.indexOf(row), column: shown.indexOf(column) };
    steps.forEach(({ lit }, n) =>
      markMap(maps[n], places[lit || "row"], lit ? null : places.column));
    arithmetic.replaceChildren(...cellArithmetic({ ...view, row, column }));
  };
  show(token, view.column);
  const sign = (text) => h("span.flow-sign", { "aria-hidden": "true" }, text);
  const options = tokenOptions(tokens).filter(({ value }) => shown.includes(value));
  return [
    h("div.attention-flow",
      steps.flatMap((of, n) => [of.sign ? sign(of.sign) : null, maps[n]])),
    h("div.stage-controls",
      h("h3", `One cell, written out: from ${quoted(tokens[token])}`),
      selectControl("to", options, view.column, (column) => {
        setAttention({ to: column });
        show(token, column);
      })),
    arithmetic,
  ];
}

function attentionMap(view, { step, name, under, lit }, show) {
  const { parts, head, shown, tokens, token, width } = view;
  const rows = shown.map((n) => tokens[n]);
  const room = Math.min(352, stage.width - 150);
  const size = lit ? width : shown.length;
  const values = new Float32Array(shown.length * size);
  shown.forEach((n, row) => {
    const of = lit ? headVector(parts[step], n, head)
      : shown.map((column) => view[step][n * tokens.length + column]);
    values.set(of, row * size);
  });
  return heatMap({
    name, under, values, rows, columns: lit ? width : rows,
    cell: Math.max(3, Math.min(22, Math.floor(room / shown.length))),
    kind: step === "probs" ? "weights" : "signed", most: step === "probs" ? 1 : undefined,
    onPick: (row, column, event) => {
      if (lit) return lit === "row" ? show(shown[row], view.column) : show(token, shown[row]);
      if (event.type === "pointerdown") setAttention({ to: shown[column] });
      return show(shown[row], shown[column]);
    },
  });
}

function hideControl(tokens) {
  const box = h("input", {
    type: "checkbox", "data-key": "hide", checked: state.hidesSpecial,
    onchange: () => {
      setAttention({ hidesSpecial: box.checked });
      redrawStage();
    },
  });
  if (!tokens.some(isMarker)) return null;
  return h("label.stage-control", box, "Hide special tokens");
}

function attentionTable({ tokens, token, probs, scores, shown }) {
  const start = token * tokens.length;
  return {
    columns: [`from ${tokens[token].text} to`, "score", "attention"],
    rows: shown.map((n) => [tokens[n].text, scores ? decimal(scores[start + n]) : "not recorded",
      percent(probs[start + n])]),
  };
}
