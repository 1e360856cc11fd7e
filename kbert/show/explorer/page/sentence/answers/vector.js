// The sentence's vector, and how near it is to that of the frozen sentence.

ANSWERS.vector = { name: "Sentence vector", draw: vectorStripOf };

function vectorStripOf(vector) {
  const other = running.frozen?.trace.outputs.vector;
  const lines = other ? [...vector, ...other] : vector;
  const canvas = h("canvas", {
    id: "vector", role: "img", "aria-label": `The sentence’s vector of ${vector.length} numbers`,
  });
  paintHeat(canvas, lines, vector.length, quantile([lines], 0.96));
  return [canvas, other
    ? h("p.cosine", h("b", cosineOf(vector, other).toFixed(3)),
      " cosine to the frozen sentence ",
      h("span.dim", "(1: the same direction, 0: unrelated)"))
    : hint(`${grouped(vector.length)} numbers. ${running.model.canType ? "Freeze this sentence and type another to compare." : ""}`)];
}
