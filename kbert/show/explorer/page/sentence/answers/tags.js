// Labels of tokens.

ANSWERS.tags = {
  name: "Labels", draw: tagsOf, layers: /^TokenClassifier$/,
  source: "Devlin et al. 2019, section 5.3",
};

function tagsOf(tags) {
  const { tokens } = running.trace;
  const found = tags.map(([best], place) => ({ place, ...best }))
    .filter(({ place, label }) => !isMarker(tokens[place]) && label !== "O");
  if (!found.length) return hint("No token has a label but O.");
  return bars(found.map(({ place, label, prob }) => [`${tokens[place].text}: ${label}`, prob]));
}
