// The residual connection: a sublayer's output is added to its input.

function drawResidual({ trace, layer, token, tokens, block }) {
  const isAttention = layer.includes("MultiHeadSelfAttention");
  const inputName = isAttention ? NAMES.output(block - 1)
    : `Encoder-${block}-MultiHeadSelfAttention-Norm`;
  const input = vectorOf(trace, inputName, token);
  const sublayer = vectorOf(trace, layer.replace(/-Add$/, ""), token);
  const output = vectorOf(trace, layer, token);
  if (!input || !sublayer || !output) return null;
  const isOff = trace.request.off?.residuals?.includes(layer);
  const noun = isAttention ? "attention" : "feed-forward";
  return {
    title: `What the ${noun} adds to ${quoted(tokens[token])}`,
    formula: isOff ? "y = Sublayer(x)" : "y = x + Sublayer(x)",
    source: "Vaswani et al. 2017, section 3.1; He et al. 2016, equation 1",
    sees: isOff ? "The residual connection is switched off: only the sublayer’s output goes on."
      : `The sublayer adds a vector of length ${decimal(lengthOf(sublayer))} to one of length ` +
        `${decimal(lengthOf(input))}: the sum’s length is ${decimal(lengthOf(output))}.`,
    body: [sumCard(isOff ? { [noun]: sublayer } : { input, [noun]: sublayer }, "output", output)],
    table: vectorTable({ input, [noun]: sublayer, output }),
  };
}
