// Labels of the text with their probabilities; of a regression its numbers.

const CLASSIFIED = { layers: /^Classifier$/, source: "Devlin et al. 2019, section 4.1" };

ANSWERS.classes = isRegression() ? {
  ...CLASSIFIED, name: "Value",
  draw: (values) => h("ul.said-bars", values.map(({ label, prob }) => answerRow(label, decimal(prob, 4)))),
  sees: "The layer’s numbers are the answer itself: no softmax makes probabilities of them.",
} : {
  ...CLASSIFIED, name: "Class",
  draw: (classes) => bars(classes.map(({ label, prob }) => [label, prob])),
};
