// Whether the second sentence follows the first.

ANSWERS.nsp = {
  name: "Next sentence", draw: nextSentence, layers: /^NSP$/,
  formula: "p = softmax(tanh(h_{CLS} W + b) V + c)",
  source: "Devlin et al. 2019, section 3.1, task 2",
};

function nextSentence({ isNext }) {
  const alone = state.pair === null;
  return [
    alone ? hint("There is one sentence: add a second one for this head.") : null,
    bars([["The second sentence follows the first", isNext], ["It does not", 1 - isNext]]),
  ];
}
