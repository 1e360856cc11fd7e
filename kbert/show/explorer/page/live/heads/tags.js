// A classifier of every token.

OUTPUTS.tags = (run) => {
  if (!run.heads.TokenClassifier) return undefined;
  const logits = applyHead(run, "TokenClassifier", run.last, [run.length]);
  const count = logits.length / run.length;
  return run.tokens.map((_, index) => rankLabels(run.live, logits.slice(index * count, (index + 1) * count), "softmax"));
};
