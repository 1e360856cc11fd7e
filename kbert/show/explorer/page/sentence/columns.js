// The columns of the tokens: where they stand, which words they make, which of another text they match.

const APART = 6;  // points between special tokens and the words

// Columns of some width from left to right: [{x, width}]; a gap where a group of tokens ends.
function placeColumns(tokens, width) {
  const apart = tokens.length > 64 ? 2 : APART;
  const ends = tokens.map((token, place) => place > 0 && groupOf(token) !== groupOf(tokens[place - 1]));
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

const isPadding = (token) => token.text === "[PAD]" || token.text === "<pad>";
// [CLS] and [SEP], which the tokenizer adds; a [MASK] that was typed stands among the words.
const isMarker = (token) => token.special && token.start === token.end;
const groupOf = (token) => (isPadding(token) ? "padding" : isMarker(token) ? "special" : `words ${token.segment}`);

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

// The column at some x; −1: none.
function columnAt(columns, x) {
  return columns.findIndex((column) => x >= column.x && x < column.x + column.width);
}

// The word of a token: its pieces begin with ##. {segment, start, end} in its sentence; null: a special token.
function wordOf(tokens, place) {
  const token = tokens[place];
  if (!token || isMarker(token)) return null;
  const isPiece = (at) => tokens[at] && !isMarker(tokens[at]) && tokens[at].text.startsWith("##");
  let first = place;
  let last = place;
  while (first > 0 && isPiece(first)) first -= 1;
  while (isPiece(last + 1)) last += 1;
  return { segment: token.segment, start: tokens[first].start, end: tokens[last].end, first, last };
}

// Both sentences with two words swapped: {text, pair}; null where there is nothing to swap.
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

// By token, the token of another text that it is: the longest common subsequence of ids; −1: new here.
function matchTokens(tokens, others) {
  const [rows, width] = [tokens.length, others.length + 1];
  const same = (i, j) => tokens[i].id === others[j].id;
  const longest = new Uint16Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i -= 1) {
    for (let j = width - 2; j >= 0; j -= 1) {
      longest[i * width + j] = same(i, j) ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  return followMatches(tokens, others, longest, width, same);
}

// Between two matches, as many tokens on both sides are matched too: a word in another's place.
function followMatches(tokens, others, longest, width, same) {
  const matched = new Array(tokens.length).fill(-1);
  let [i, j, fromI, fromJ] = [0, 0, 0, 0];
  const settleGap = () => {
    if (i - fromI === j - fromJ) for (let k = 0; k < i - fromI; k += 1) matched[fromI + k] = fromJ + k;
  };
  while (i < tokens.length && j < others.length) {
    if (same(i, j)) {
      settleGap();
      matched[i] = j;
      i += 1;
      j += 1;
      [fromI, fromJ] = [i, j];
    } else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i += 1;
    else j += 1;
  }
  [i, j] = [tokens.length, others.length];
  settleGap();
  return matched;
}
