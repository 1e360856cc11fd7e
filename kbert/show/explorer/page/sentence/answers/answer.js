// The answer to a question, in the second text.

ANSWERS.answer = {
  name: "Answer", draw: answerOf, layers: /^Span(-Start|-End)?$/,
  formula: "P_i = frac{e^{S · T_i}}{Σ_j e^{S · T_j}}", source: "Devlin et al. 2019, section 4.2",
};

function answerOf({ text, prob }) {
  return text ? bars([[`“${text}”`, prob]]) : hint("No answer in this text.");
}
