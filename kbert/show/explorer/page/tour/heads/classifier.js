HEAD_OUTPUTS.classifier = ({ n }) => ["Classifier",
  `The classifier reads the vector of ${firstToken()} and gives ${isRegression() ? "a number, which is the answer"
    : `one number per label, ${n.K} in all; ${live?.labelFunction ?? "softmax"} makes probabilities of them`}.`];

EXAMPLES.classifier = ["What a wonderful film."];
