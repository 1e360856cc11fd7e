// The words that the MLM head expects.

ANSWERS.mlm = {
  name: "Masked word", draw: maskedWords, layers: /^MLM(-Sim)?$/,
  formula: "p = softmax(f(h) E^T + c)", source: "Devlin et al. 2019, section 3.1, task 1",
};

// The candidates for the mask or the token that is lit, or for the first mask.
function maskedWords(masks) {
  if (!masks.length) {
    return hint(running.model.canType
      ? "Choose a word and hide it: the model says which word it expects in its place."
      : "No word of this sentence is hidden behind [MASK].");
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
    h("div.chips", { role: "group", "aria-label": "Predicted tokens" }, choices),
    bars(mask.candidates.map(({ token, prob }) => [token, prob])),
    mask.blocks ? byBlock(mask.blocks) : null,
  ];
}

function byBlock(blocks) {
  const cell = ({ token, prob }) => h("td", { style: `--prob:${prob.toFixed(3)}` },
    token, h("span.dim", ` ${percent(prob)}`));
  const rows = blocks.map((candidates, place) => [`block ${place + 1}`, ...candidates.slice(0, 4).map(cell)]);
  return h("details.by-block", h("summary.small", "After each block"),
    h("div.stage-rows", { tabindex: 0, role: "region", "aria-label": "Words by block" },
      hint("The likeliest words, if the head read this block’s output"), tableOf({}, [], rows.reverse())));
}
