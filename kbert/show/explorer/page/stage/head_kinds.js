// Kinds of attention heads, as kbert.tasks.attention.head_statistics finds them: a head has a
// target if on average more than half of the attention goes there (Clark et al. 2019, section 3.1).

const HEAD_LOOKS = 0.5;
const WORD_TARGETS = ["next", "previous", "itself"];
const HEAD_TARGETS = [...WORD_TARGETS, "[SEP]", "[CLS]"];
const TARGET_TEXTS = {
  next: "the next token", previous: "the previous token", itself: "the token itself",
};

// RoBERTa’s [CLS] and [SEP] have other names.
const targetText = (name, tokens) => TARGET_TEXTS[name] ||
  (name === "[CLS]" ? tokens[0] : tokens.findLast(isMarker)).text;

// Of one map [S, S]: the share of attention to each target, averaged over the tokens that have it.
function headShares(map, tokens) {
  const size = tokens.length;
  const totals = [0, 0, 0, 0, 0];
  for (let row = 0; row < size; row += 1) {
    const at = row * size;
    if (row + 1 < size) totals[0] += map[at + row + 1];
    if (row > 0) totals[1] += map[at + row - 1];
    totals[2] += map[at + row];
    for (let column = 0; column < size; column += 1) {
      if (isMarker(tokens[column])) totals[column ? 3 : 4] += map[at + column];
    }
  }
  const counts = [size - 1, size - 1, size, size, size];
  return Object.fromEntries(HEAD_TARGETS.map((name, n) =>
    [name, counts[n] ? totals[n] / counts[n] : 0]));
}

const largestShare = (shares, names) =>
  names.reduce((most, name) => (shares[name] > shares[most] ? name : most));

function headTarget(shares) {
  const best = largestShare(shares, HEAD_TARGETS);
  return shares[best] > HEAD_LOOKS ? best : null;
}

const specialShare = (shares) => shares["[SEP]"] + shares["[CLS]"];

const wordTarget = (shares) => largestShare(shares, WORD_TARGETS);

// The head to open at: the one that looks most clearly at the next or previous token or at itself;
// heads that look at special tokens, as many do, come last.
function tellingHead(kinds) {
  const clarity = ({ shares, target }) =>
    shares[wordTarget(shares)] + (target === null ? 0 : target.startsWith("[") ? -1 : 1);
  return largestIndex(kinds.map(clarity));
}

// By tensor, its heads' kinds: a trace's maps do not change.
const headKindsOf = new WeakMap();

function headKinds(probs, tokens) {
  if (!headKindsOf.has(probs)) {
    headKindsOf.set(probs, Array.from({ length: probs.shape[0] }, (_, head) => {
      const shares = headShares(headMap(probs, head), tokens);
      return { shares, target: headTarget(shares) };
    }));
  }
  return headKindsOf.get(probs);
}
