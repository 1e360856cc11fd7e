// What comes out at the top of the figure: the head's answer in plain words, with bars.

const HEAD_NAMES = { mlm: "Masked word", nsp: "Next sentence", classes: "Class", tags: "Labels", answer: "Answer", vector: "Sentence vector" };

function drawOutputs() {
  const host = $("outputs");
  const { trace } = running;
  const shown = Boolean(trace) && sentenceShown();
  host.hidden = !shown;
  if (!shown) return;
  const { outputs } = trace;
  const lines = [
    outputs.mlm ? maskedWords(outputs.mlm) : null,
    outputs.nsp ? outputLine("nsp", nextSentence(outputs.nsp)) : null,
    outputs.classes ? outputLine("classes", bars(outputs.classes.map(({ label, prob }) => [label, prob]))) : null,
    outputs.tags ? outputLine("tags", tagsOf(outputs.tags)) : null,
    outputs.answer ? outputLine("answer", answerOf(outputs.answer)) : null,
    outputs.vector ? outputLine("vector", vectorStripOf(outputs.vector)) : null,
  ].filter(Boolean);
  const open = host.querySelector("details")?.open;
  host.replaceChildren(...lines);
  const details = host.querySelector("details");
  if (details && open) details.open = true;
  if (outputs.vector) paintVector(outputs.vector);
}

const outputLine = (kind, ...children) =>
  h("div", { class: `output ${kind}` }, h("h2", {}, HEAD_NAMES[kind]), h("div", { class: "said" }, ...children));

// Bars of words or labels; the fill is the probability.
function bars(entries) {
  return h("ul", { class: "said-bars" }, entries.map(([label, prob]) => h("li", { class: "said-bar" },
    h("span", { class: "fill", style: `width:${(100 * prob).toFixed(1)}%` }),
    h("span", { class: "label" }, label), h("span", { class: "prob" }, percent(prob)))));
}

// The candidates for the mask or the token that is lit, or for the first mask.
function maskedWords(masks) {
  if (!masks.length) {
    return outputLine("mlm", h("p", { class: "dim hint" }, "Put [MASK] in place of a word, and the model says which word it expects. "),
      running.model?.canType ? button("Hide the last word", hideLastWord, { class: "small" }) : null);
  }
  const mask = masks.find(({ position }) => position === litToken()) || masks[0];
  const nameOf = (position) => running.trace.tokens[position].text;
  const choices = masks.length > 1 ? h("div", { class: "chips", role: "group", "aria-label": "Predicted tokens" }, masks.map(({ position }) =>
    button(nameOf(position), () => keepToken(position), {
      class: "chip", "aria-label": `${nameOf(position)}, token ${position + 1}`, "aria-current": mask.position === position ? "true" : null,
    }))) : h("p", { class: "dim" }, nameOf(mask.position) === "[MASK]" ? "instead of [MASK]:" : `at “${nameOf(mask.position)}”:`);
  return outputLine("mlm", choices, bars(mask.candidates.map(({ token, prob }) => [token, prob])), mask.blocks ? byBlock(mask.blocks) : null);
}

// What the head would say of each block's output.
function byBlock(blocks) {
  const rows = blocks.map((candidates, place) => h("tr", {}, h("th", { scope: "row" }, place + 1),
    candidates.slice(0, 4).map(({ token, prob }) => h("td", { style: `--prob:${prob.toFixed(3)}` }, token,
      h("span", { class: "dim" }, ` ${percent(prob)}`)))));
  return h("details", { class: "by-block" }, h("summary", { class: "small" }, "After each block"),
    h("div", { class: "block-rows", tabindex: 0, role: "region", "aria-label": "The likeliest words after each block" },
      h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Block"),
        h("th", { scope: "col", colspan: 4 }, "The likeliest words, if the head read this block’s output"))), h("tbody", {}, rows.reverse()))));
}

function hideLastWord() {
  const { tokens } = running.trace;
  const place = tokens.findLastIndex((token, at) => wordOf(tokens, at) && token.segment === 0 && /[\p{L}\p{N}]/u.test(token.text));
  if (place >= 0) hideWord(wordOf(tokens, place));
}

function nextSentence({ isNext }) {
  const told = state.pair === null ? "There is one sentence: add a second one for this head. " : "";
  return [told ? h("p", { class: "dim hint" }, told) : null, bars([["The second sentence follows the first", isNext], ["It does not", 1 - isNext]])];
}

// Words with a label; the label of the others (O) is not written.
function tagsOf(tags) {
  const { tokens } = running.trace;
  const found = tags.map((candidates, place) => ({ place, ...candidates[0] }))
    .filter(({ place, label }) => !isMarker(tokens[place]) && label !== "O");
  if (!found.length) return h("p", { class: "dim" }, "No token has a label but O.");
  return h("ul", { class: "said-bars" }, found.map(({ place, label, prob }) => h("li", { class: "said-bar" },
    h("span", { class: "fill", style: `width:${(100 * prob).toFixed(1)}%` }),
    h("span", { class: "label" }, `${tokens[place].text} `, h("b", {}, label)), h("span", { class: "prob" }, percent(prob)))));
}

const answerOf = ({ text, prob }) => (text ? bars([[`“${text}”`, prob]]) : h("p", { class: "dim" }, "No answer in this text."));

function vectorStripOf(vector) {
  const other = running.frozen?.trace.outputs.vector;
  const likeness = other ? h("p", { class: "cosine" }, h("b", {}, cosineOf(vector, other).toFixed(3)),
    " cosine to the frozen sentence ", h("span", { class: "dim" }, "(1: the same direction, 0: unrelated)")) : null;
  return [h("canvas", { id: "vector", role: "img", "aria-label": `The sentence’s vector: ${vector.length} numbers as colours` }),
    likeness || h("p", { class: "dim hint" }, `${grouped(vector.length)} numbers. Freeze this sentence and type another to compare them.`)];
}

// The vector's numbers in one row, those of the frozen sentence below.
function paintVector(vector) {
  const canvas = $("vector");
  const lines = [vector, running.frozen?.trace.outputs.vector].filter(Boolean);
  Object.assign(canvas, { width: vector.length, height: lines.length });
  const most = percentileOf(vector, 0.96) || 1;
  const context = canvas.getContext("2d");
  const image = context.createImageData(vector.length, lines.length);
  paintPixels(lines.flatMap((line) => Array.from(line, (value) => value / most)), image.data);
  context.putImageData(image, 0, 0);
}
