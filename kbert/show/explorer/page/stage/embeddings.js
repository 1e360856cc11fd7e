// The embeddings: token, segment and position vectors, added.

const EMBEDDINGS = {
  token: "Embedding-Token", segment: "Embedding-Segment", position: "Embedding-Position/position",
};

function drawEmbeddings({ trace, token, tokens }) {
  const sum = vectorOf(trace, "Embedding-Position", token);
  const parts = Object.fromEntries(Object.entries(EMBEDDINGS)
    .map(([name, layer]) => [name, vectorOf(trace, layer, token)]).filter(([, vector]) => vector));
  if (!sum || !parts.token) return null;
  // how much of the sum comes from a part: its projection on the sum, by the sum's length
  const share = (name) => dotProduct(parts[name], sum) / dotProduct(sum, sum);
  const names = Object.keys(parts);
  const most = names[largestIndex(names.map(share))];
  const off = trace.request.off?.positions ? " The positions are switched off." : "";
  return {
    title: `${quoted(tokens[token])} as a sum of ${names.length} vectors`,
    formula: "x = E_{token} + E_{segment} + E_{position}",
    source: "Devlin et al. 2019, section 3, figure 2",
    sees: `Each token becomes ${grouped(sum.length)} numbers. For ${quoted(tokens[token])} at ` +
      `position ${token + 1}, the ${most} vector makes up most of the sum: ` +
      `${percent(share(most))} of its length.${off}`,
    body: [sumCard(parts, "sum", sum)],
    table: vectorTable({ ...parts, sum }),
  };
}
