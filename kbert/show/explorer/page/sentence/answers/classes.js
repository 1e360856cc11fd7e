// Labels of the text with their probabilities; of a regression the numbers.

ANSWERS.classes = {
  name: "Class", draw: (classes) => bars(classes.map(({ label, prob }) => [label, prob])),
  layers: /^Classifier$/, source: "Devlin et al. 2019, section 4.1",
};
