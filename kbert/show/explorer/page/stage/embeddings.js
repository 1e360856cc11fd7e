// The embeddings: token, segment and position vectors, added.

const EMBEDDINGS = { token: "Embedding-Token", segment: "Embedding-Segment", position: "Embedding-Position/position" };

function drawEmbeddings({ trace, token, tokens }) {
  const sum = vectorOf(trace, "Embedding-Position", token);
  const parts = Object.fromEntries(Object.entries(EMBEDDINGS)
    .map(([name, layer]) => [name, vectorOf(trace, layer, token)]).filter(([, vector]) => vector));
  if (!sum || !parts.token) return null;
  // How much of the sum comes from a part: its projection on the sum, by the sum's length.
  const shares = Object.entries(parts).map(([name, part]) => ({ name, part, value: dotProduct(part, sum) / dotProduct(sum, sum) }));
  const most = shares[largestIndex(shares.map(({ value }) => value))];
  const off = trace.request.off?.positions ? " The positions are switched off." : "";
  return {
    kind: "embedding",
    title: `${quoted(tokens[token])} as a sum of three vectors`,
    formula: "x = E_{token} + E_{segment} + E_{position}",
    spoken: "x equals token embedding plus segment embedding plus position embedding",
    source: "Devlin et al. 2019, section 3, figure 2",
    sees: `Each token becomes ${grouped(sum.length)} numbers. For ${quoted(tokens[token])} at position ${token + 1}, ` +
      `the ${most.name} vector makes up most of the sum: ${percent(most.value)} of its length.${off}`,
    body: [
      sumCard(`The ${grouped(sum.length)} numbers of ${quoted(tokens[token])}`, parts, "sum", sum),
      stageCard("Which part makes up the sum", barTable(shares.map(({ name, part, value }) => (
        { name, value, text: percentSigned(value), under: `length ${decimal(lengthOf(part))}` }))),
      h("p", { class: "dim" }, `Shares of the sum’s length in its own direction: they add up to 100 %. The sum’s length is ${decimal(lengthOf(sum))}.`)),
    ],
    table: vectorTable({ ...parts, sum }),
  };
}
