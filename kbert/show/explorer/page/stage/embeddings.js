// The embeddings: token, segment and position vectors, added.

function drawEmbeddings(scene) {
  const { trace, token, tokens } = scene;
  const sum = vectorOf(trace, "Embedding-Position", token);
  const names = { "Embedding-Token": "token", "Embedding-Segment": "segment", "Embedding-Position/position": "position" };
  const parts = Object.entries(names)
    .map(([name, title]) => ({ title, name: title, values: vectorOf(trace, name, token) }))
    .filter((part) => part.values);
  if (!sum || !parts.length) return null;
  parts.forEach((part, n) => { part.sign = n ? "+" : ""; });
  return {
    kind: "embedding",
    title: `${quoted(tokens[token])} as a sum of ${parts.length === 3 ? "three" : parts.length} vectors`,
    formula: "x = E_{token} + E_{segment} + E_{position}",
    spoken: "x equals token embedding plus segment embedding plus position embedding",
    source: "Devlin et al. 2019, section 3, figure 2",
    sees: seeEmbeddings(scene, parts, sum),
    body: [embeddingRows(scene, parts, sum), embeddingShares(parts, sum)],
    table: () => ({
      columns: ["dimension", ...parts.map((part) => part.title), "sum"],
      rows: Array.from(sum, (total, n) => [String(n + 1), ...parts.map((part) => decimal(part.values[n])), decimal(total)]),
    }),
  };
}

function embeddingRows({ tokens, token }, parts, sum) {
  const arithmetic = h("p", { class: "arithmetic", role: "status" });
  const rows = [...parts, { sign: "=", name: "sum", values: sum }];
  const drawn = heatRows(rows, { onPick: (index) => {
    const terms = parts.map((part) => part.values[index]);
    const digits = digitsThatAddUp(terms, sum[index]);
    const text = terms.map((term, n) => (n ? bracketed(decimal(term, digits)) : decimal(term, digits))).join(" + ");
    arithmetic.replaceChildren(h("span", { class: "dim" }, `Dimension ${index + 1}: `), mathOf(`${text} = ${decimal(sum[index], digits)}`));
  } });
  return stageCard(`The ${grouped(sum.length)} numbers of ${quoted(tokens[token])}`, drawn, arithmetic);
}

// How much of the sum comes from a part: its projection on the sum, divided by the sum’s length.
const partShare = (part, sum) => dotProduct(part.values, sum) / dotProduct(sum, sum);

function seeEmbeddings({ trace, tokens, token }, parts, sum) {
  const shares = parts.map((part) => partShare(part, sum));
  const most = largestIndex(shares);
  const off = trace.request.off?.positions ? " The positions are switched off." : "";
  return `Each token becomes ${grouped(sum.length)} numbers. For ${quoted(tokens[token])} at position ${token + 1}, ` +
    `the ${parts[most].title} vector makes up most of the sum: ${percent(shares[most])} of its length.${off}`;
}

function embeddingShares(parts, sum) {
  return stageCard("Which part makes up the sum", barTable(parts.map((part) => ({
    name: part.title, value: partShare(part, sum), text: percentSigned(partShare(part, sum)),
    under: `length ${decimal(lengthOf(part.values))}`,
  }))), h("p", { class: "dim" }, `Share of the sum in its own direction; they add up to 100 %. The sum’s length is ${decimal(lengthOf(sum))}.`));
}
