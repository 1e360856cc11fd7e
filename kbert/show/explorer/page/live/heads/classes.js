// A classifier; of multiple choice, which has no labels, the logit alone.

OUTPUTS.classes = (run) => {
  const { live, heads, pooled } = run;
  if (!heads.Classifier || !pooled) return undefined;
  const logits = applyHead(run, "Classifier", pooled, []);
  return live.labels.length ? rankLabels(live, logits, live.labelFunction) : undefined;
};
