// The start and the end of an answer in the second text.

const LONGEST_ANSWER = 30;  // tokens

OUTPUTS.answer = (run) => {
  const { heads, last, length, request, keep } = run;
  if (!heads.Span) return undefined;
  const both = applyHead(run, "Span", last, [length]);
  const [start, end] = [0, 1].map((which) => both.filter((_, place) => place % 2 === which));
  keep("Span-Start", [length], start);
  keep("Span-End", [length], end);
  return request.pair ? findAnswer(run, start, end) : undefined;
};

// The best span of the second text: the largest sum of two logits.
function findAnswer({ tokens, request }, start, end) {
  const places = [...tokens.keys()].slice(0, -1).filter((place) => tokens[place].segment);
  if (!places.length) return { text: "", start: 0, end: 0, prob: 0 };
  const [starts, ends] = [start, end].map((logits) => Float32Array.from(places, (place) => logits[place]));
  let [first, last] = [0, 0];
  starts.forEach((logit, from) => {
    ends.subarray(from, from + LONGEST_ANSWER).forEach((other, more) => {
      if (logit + other > starts[first] + ends[last]) [first, last] = [from, from + more];
    });
  });
  const span = { start: tokens[places[first]].start, end: tokens[places[last]].end };
  const prob = softmax(starts, starts.length)[first] * softmax(ends, ends.length)[last];
  return { text: request.pair.slice(span.start, span.end), ...span, prob };
}
