// The text in the colours of its attribution: blue counts for the answer, orange against it.
// DATA.live.attribution = {title, notes, scores: a number per token, text, pair}

const STRONGEST_SHADE = 55;  // % of the colour: text on it can be read

// The attribution of a trace; null: the page has none of this text.
function attributionOf({ request, tokens }) {
  const found = live.attribution;
  const isSame = request.text === found.text && (request.pair ?? null) === found.pair;
  return isSame && found.scores.length === tokens.length ? found : null;
}

// A share from −1 to 1 as a colour, of which all or a part is seen.
const shareColour = (share, most = STRONGEST_SHADE) =>
  `color-mix(in srgb, var(--${share < 0 ? "out" : "in"}) ${(most * Math.abs(share)).toFixed(1)}%, transparent)`;

const shareOf = ({ scores }, score) => score / (Math.max(...scores.map(Math.abs)) || 1);

function attributionLine(trace) {
  const found = attributionOf(trace);
  if (!found) return [];
  const texts = [trace.request.text, trace.request.pair].filter((text) => text !== null && text !== undefined);
  const shade = (score) => `background:${shareColour(shareOf(found, score))}`;
  const legend = h("p.coloured", h("span", { style: `background:${shareColour(1)}` }, " for "), " ",
    h("span", { style: `background:${shareColour(-1)}` }, " against "));
  const rows = trace.tokens.map((token, n) => ({ token, score: found.scores[n] })).filter(({ token }) => !isMarker(token))
    .map(({ token, score }) => h("tr", h("th", { scope: "row", style: shade(score) }, token.text), h("td", signed(score))));
  const table = h("details.scores", h("summary.small", "Every token’s score"),
    h("table.stage-table", h("tbody", rows)));
  return [outputLine("Attribution", h("div.attribution", h("p", h("b", found.title)),
    texts.map((text, segment) => h("p.coloured", { dir: "auto" }, colourText(text, segment, trace.tokens, found, shade))),
    legend, found.notes.map((note) => h("p.dim", note)), table))];
}

// Tokens as pieces of their text; of those that share letters the first one has them.
function colourText(text, segment, tokens, { scores }, shade) {
  const pieces = [];
  let done = 0;
  tokens.forEach((token, n) => {
    if (token.segment !== segment || isMarker(token) || token.end <= done) return;
    const start = Math.max(done, token.start);
    pieces.push(text.slice(done, start), h("span", { style: shade(scores[n]), title: `${token.text} ${signed(scores[n])}` }, text.slice(start, token.end)));
    done = token.end;
  });
  return [...pieces, text.slice(done)];
}

const signed = (score) => `${score < 0 ? "−" : "+"}${Math.abs(score).toFixed(4)}`;

// Marks the tokens under the figure.
function markScores(row, trace) {
  const found = attributionOf(trace);
  [...row.children].forEach((token, n) => {
    token.classList.toggle("scored", Boolean(found));
    if (found) token.style.setProperty("--score", shareColour(shareOf(found, found.scores[n]), 100));
  });
}
