// The columns of the tokens: where they stand, their words, what they match in another text.

const APART = 6;  // points between special tokens and the words

// Columns of some width from left to right: [{x, width}]; a gap where a group of tokens ends.
function placeColumns(tokens, width) {
  const apart = tokens.length > 64 ? 2 : APART;
  const groups = tokens.map(groupOf);
  const ends = groups.map((group, place) => place > 0 && group !== groups[place - 1]);
  const gaps = ends.filter(Boolean).length;
  const wide = Math.min(MOST_COLUMN, Math.max(0.5, (width - gaps * apart) / tokens.length));
  let x = 0;
  return tokens.map((token, place) => {
    if (ends[place]) x += apart;
    x += wide;
    return { x: x - wide, width: wide };
  });
}

const MOST_COLUMN = 76;

// [CLS] and [SEP], which the tokenizer adds; a [MASK] that was typed stands among the words.
const isMarker = (token) => token.special && token.start === token.end;
const groupOf = (token) => (isMarker(token) ? "special" : `segment-${token.segment}`);

// Runs of columns that touch each other, each drawn as one picture: [{first, count, x, width}].
function joinColumns(columns) {
  const runs = [];
  columns.forEach(({ x, width }, place) => {
    const last = runs.at(-1);
    if (last && x - last.x - last.width < 0.01) {
      last.count += 1;
      last.width = x + width - last.x;
    } else {
      runs.push({ first: place, count: 1, x, width });
    }
  });
  return runs;
}

// The word of a token, whose pieces begin with ##: its place in its sentence, and its first token.
function wordOf(tokens, place) {
  const token = tokens[place];
  if (!token || isMarker(token)) return null;
  const isPiece = (at) => tokens[at] && !isMarker(tokens[at]) && tokens[at].text.startsWith("##");
  let first = place;
  let last = place;
  while (first > 0 && isPiece(first)) first -= 1;
  while (isPiece(last + 1)) last += 1;
  return { segment: token.segment, start: tokens[first].start, end: tokens[last].end, first };
}

function swapWords(trace, from, to) {
  const words = [wordOf(trace.tokens, from), wordOf(trace.tokens, to)];
  if (!words[0] || !words[1] || words[0].first === words[1].first) return null;
  const sentences = [trace.request.text, trace.request.pair ?? ""];
  const read = (word) => sentences[word.segment].slice(word.start, word.end);
  const [first, second] = words.map(read);
  // the later word of a sentence first: the earlier one's place holds
  const edits = [[words[0], second], [words[1], first]].sort(([a], [b]) => b.start - a.start);
  for (const [word, text] of edits) {
    const sentence = sentences[word.segment];
    sentences[word.segment] = sentence.slice(0, word.start) + text + sentence.slice(word.end);
  }
  return { text: sentences[0], pair: trace.request.pair === null ? null : sentences[1] };
}

// By token, the same token of another text, by the longest common subsequence of ids; −1: none.
// Between two matches, as many tokens on both sides match too: a word in another's place.
function matchTokens(tokens, others) {
  const width = others.length + 1;
  const longest = new Uint16Array((tokens.length + 1) * width);
  for (let i = tokens.length - 1; i >= 0; i -= 1) {
    for (let j = others.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = tokens[i].id === others[j].id ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const matched = new Array(tokens.length).fill(-1);
  let [i, j, gapI, gapJ] = [0, 0, 0, 0];
  const closeGap = (toI, toJ) => {
    const isSame = toI - gapI === toJ - gapJ;
    for (let k = gapI; isSame && k < toI; k += 1) matched[k] = gapJ + k - gapI;
    [gapI, gapJ] = [toI + 1, toJ + 1];
  };
  while (i < tokens.length && j < others.length) {
    if (tokens[i].id === others[j].id) {
      closeGap(i, j);
      matched[i] = j;
      i += 1;
      j += 1;
    } else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i += 1;
    else j += 1;
  }
  closeGap(tokens.length, others.length);
  return matched;
}
