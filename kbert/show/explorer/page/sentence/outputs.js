// What comes out at the top of the figure: the head's answer in plain words, with bars.

// By the output's name in a trace: a title, how it is drawn, and for the stage the layers that it
// comes from, a formula and its source, and what they say of its numbers. A page has the answers that its head can give.
const ANSWERS = {};

// The stage of a layer that answers; null: it does not.
function drawAnswer({ trace, layer }) {
  const kind = Object.keys(ANSWERS).find((one) => ANSWERS[one].layers?.test(layer));
  const answer = trace.outputs[kind];
  if (!answer) return null;
  const { name, draw, ...said } = ANSWERS[kind];
  return {
    title: name, body: [stageCard("The answer", draw(answer))],
    sees: "The layer’s numbers are logits, which become the probabilities that stand here.", ...said,
  };
}

function drawOutputs() {
  const host = $("outputs");
  host.hidden = !traceShown();
  if (host.hidden) return;
  const { outputs } = running.trace;
  const open = host.querySelector("details")?.open;
  const kinds = Object.keys(ANSWERS).filter((kind) => outputs[kind]);
  host.replaceChildren(...kinds.map((kind) => outputLine(ANSWERS[kind].name, ANSWERS[kind].draw(outputs[kind]))));
  if (live.attribution) host.prepend(...attributionLine(running.trace));
  if (open) host.querySelector("details")?.setAttribute("open", "");
}

const outputLine = (name, said) =>
  h("div.output", h("h2", name), h("div.said", said));

const bars = (entries) => h("ul.said-bars", entries.map(([label, prob]) =>
  answerRow(label, percent(prob), h("span.fill", { style: `width:${(100 * prob).toFixed(1)}%` }))));

const answerRow = (label, value, bar) => h("li.said-bar", bar,
  h("span.bar-name", label), h("span.bar-value", value));

const hint = (text) => h("p.dim.hint", text);
