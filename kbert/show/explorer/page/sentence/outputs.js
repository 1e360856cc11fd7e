// What comes out at the top of the figure: the head's answer in plain words, with bars.

// By output: its name, how it is drawn, and for the stage the layers that it comes from, a formula.
const ANSWERS = {
  mlm: {
    name: "Masked word", draw: maskedWords, layers: /^MLM(-Sim)?$/,
    formula: "p = softmax(f(h) E^T + c)", source: "Devlin et al. 2019, section 3.1, task 1",
  },
  nsp: {
    name: "Next sentence", draw: nextSentence, layers: /^NSP$/,
    formula: "p = softmax(tanh(h_{CLS} W + b) V + c)",
    source: "Devlin et al. 2019, section 3.1, task 2",
  },
  classes: {
    name: "Class", draw: (classes) => bars(classes.map(({ label, prob }) => [label, prob])),
    layers: /^Classifier$/, source: "Devlin et al. 2019, section 4.1",
  },
  tags: {
    name: "Labels", draw: tagsOf, layers: /^TokenClassifier$/,
    source: "Devlin et al. 2019, section 5.3",
  },
  answer: {
    name: "Answer", draw: answerOf, layers: /^Span(-Start|-End)?$/,
    formula: "P_i = frac{e^{S · T_i}}{Σ_j e^{S · T_j}}", source: "Devlin et al. 2019, section 4.2",
  },
  vector: { name: "Sentence vector", draw: vectorStripOf },
};

// The stage of a layer that answers; null: it does not.
function drawAnswer({ trace, layer }) {
  const kind = Object.keys(ANSWERS).find((one) => ANSWERS[one].layers?.test(layer));
  const answer = trace.outputs[kind];
  if (!answer) return null;
  const { name, draw, formula, source } = ANSWERS[kind];
  return {
    title: name, formula, source, body: [stageCard("The answer", draw(answer))],
    sees: "The layer’s numbers are logits, which become the probabilities that stand here.",
  };
}

function drawOutputs() {
  const host = $("outputs");
  host.hidden = !running.trace || !sentenceShown();
  if (host.hidden) return;
  const { outputs } = running.trace;
  const open = host.querySelector("details")?.open;
  host.replaceChildren(...attributionLine(running.trace), ...Object.keys(ANSWERS).filter((kind) => outputs[kind]).map((kind) =>
    h("div", { class: `output ${kind}` }, h("h2", {}, ANSWERS[kind].name),
      h("div", { class: "said" }, ANSWERS[kind].draw(outputs[kind])))));
  if (open) host.querySelector("details")?.setAttribute("open", "");
}

function bars(entries) {
  const rows = entries.map(([label, prob]) => h("li", { class: "said-bar" },
    h("span", { class: "fill", style: `width:${(100 * prob).toFixed(1)}%` }),
    h("span", { class: "bar-name" }, label), h("span", { class: "bar-value" }, percent(prob))));
  return h("ul", { class: "said-bars" }, rows);
}

// The candidates for the mask or the token that is lit, or for the first mask.
function maskedWords(masks) {
  if (!masks.length) {
    return hint("Choose a word and hide it: the model says which word it expects in its place.");
  }
  const mask = masks.find(({ position }) => position === litToken()) || masks[0];
  const choices = masks.map(({ position }) => {
    const { text } = running.trace.tokens[position];
    return button(text, () => keepToken(position), {
      class: "chip", "aria-label": `${text}, token ${position + 1}`,
      "aria-current": mask.position === position ? "true" : null,
    });
  });
  return [
    h("div", { class: "chips", role: "group", "aria-label": "Predicted tokens" }, choices),
    bars(mask.candidates.map(({ token, prob }) => [token, prob])),
    mask.blocks ? byBlock(mask.blocks) : null,
  ];
}

const hint = (text) => h("p", { class: "dim hint" }, text);

function byBlock(blocks) {
  const rows = blocks.map((candidates, place) => h("tr", {},
    h("th", { scope: "row" }, `block ${place + 1}`),
    candidates.slice(0, 4).map(({ token, prob }) => h("td", { style: `--prob:${prob.toFixed(3)}` },
      token, h("span", { class: "dim" }, ` ${percent(prob)}`)))));
  return h("details", { class: "by-block" }, h("summary", { class: "small" }, "After each block"),
    h("div", { class: "stage-rows", tabindex: 0, role: "region", "aria-label": "Words by block" },
      hint("The likeliest words, if the head read this block’s output"),
      h("table", {}, h("tbody", {}, rows.reverse()))));
}

function nextSentence({ isNext }) {
  const alone = state.pair === null;
  return [
    alone ? hint("There is one sentence: add a second one for this head.") : null,
    bars([["The second sentence follows the first", isNext], ["It does not", 1 - isNext]]),
  ];
}

function tagsOf(tags) {
  const { tokens } = running.trace;
  const found = tags.map(([best], place) => ({ place, ...best }))
    .filter(({ place, label }) => !isMarker(tokens[place]) && label !== "O");
  if (!found.length) return hint("No token has a label but O.");
  return bars(found.map(({ place, label, prob }) => [`${tokens[place].text}: ${label}`, prob]));
}

function answerOf({ text, prob }) {
  return text ? bars([[`“${text}”`, prob]]) : hint("No answer in this text.");
}

function vectorStripOf(vector) {
  const other = running.frozen?.trace.outputs.vector;
  const lines = other ? [...vector, ...other] : vector;
  const canvas = h("canvas", {
    id: "vector", role: "img", "aria-label": `The sentence’s vector of ${vector.length} numbers`,
  });
  paintHeat(canvas, lines, vector.length, quantile([lines], 0.96));
  return [canvas, other
    ? h("p", { class: "cosine" }, h("b", {}, cosineOf(vector, other).toFixed(3)),
      " cosine to the frozen sentence ",
      h("span", { class: "dim" }, "(1: the same direction, 0: unrelated)"))
    : hint(`${grouped(vector.length)} numbers. Freeze this sentence and type another to compare.`)];
}
