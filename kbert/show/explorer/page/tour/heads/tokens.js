HEAD_OUTPUTS.tokens = ({ n }) => ["TokenClassifier",
  `The classifier gives ${n.K} numbers per token, one for each label; softmax makes probabilities of them.`];

EXAMPLES.tokens = ["Angela Merkel met Emmanuel Macron in Paris."];
