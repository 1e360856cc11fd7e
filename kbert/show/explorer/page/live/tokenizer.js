// BERT's WordPiece, as the Rust package `tokenizers` computes it:
//
//   text → clean, strip accents, lowercase → words and punctuation → pieces → ids
//
// What each code point is (blank, punctuation, a mark, …) comes from Rust's own answers, which are
// written into the page: browsers have newer Unicode tables, each its own.

// Bits of a code point's entry in the table.
const BITS = {
  dropped: 1,        // control, format and private-use characters
  blanks: 2,
  punctuation: 4,
  marks: 8,          // nonspacing: stripped as an accent
  decomposes: 16,    // into a letter and marks
  ideographs: 32,    // a word of its own
  unordered: 64,     // a mark that stays in its place among others
};

const readNumbers = (text) => text.split(" ").map((digits) => parseInt(digits, 36));

// Runs of code points are written as the gap before each run and its length, in base 36.
function* readRuns(text) {
  const numbers = text ? readNumbers(text) : [];
  let end = 0;
  for (let place = 0; place < numbers.length; place += 2) {
    const start = end + numbers[place];
    end = start + numbers[place + 1];
    yield [start, end];
  }
}

function makeCharacterTable(runs) {
  const table = new Uint8Array(0x110000);
  for (const [name, bit] of Object.entries(BITS)) {
    for (const [start, end] of readRuns(runs[name])) {
      for (let point = start; point < end; point += 1) table[point] |= bit;
    }
  }
  return table;
}

// Lowercase letters by capital: [first, count, step, distance], in base 36.
function makeLowercaseMap(text) {
  const lowercase = new Map();
  for (const row of text ? text.split(",") : []) {
    const [first, count, step, distance] = readNumbers(row);
    for (let place = 0; place < count; place += 1) {
      const point = first + place * step;
      lowercase.set(String.fromCodePoint(point), String.fromCodePoint(point + distance));
    }
  }
  lowercase.set("\u0130", "i\u0307");  // the only letter that becomes two
  return lowercase;
}

function makeTokenizer(settings) {
  const tokens = settings.tokens.split("\n");
  const vocabulary = new Map(tokens.map((token, id) => [token, id]));
  const added = new Map(settings.added.map((entry) => [entry.content, entry]));
  for (const { content, id } of settings.added) tokens[id] = content;
  const rules = {
    ...settings, tokens, vocabulary, added,
    table: makeCharacterTable(settings.runs),
    lowercaseOf: makeLowercaseMap(settings.lowercaseRuns),
    classes: new Map(settings.classes),
    addedAsWritten: prepareAdded(settings.added.filter((token) => !token.normalized)),
    addedNormalized: prepareAdded(settings.added.filter((token) => token.normalized)),
  };
  rules.unknownId = added.get(settings.special.unk).id;
  return { tokens, rules, encode: (text, pair) => encode(rules, text, pair) };
}

// A character is [text, start, end], with its place in the input in UTF-16 units.
function readCharacters(text, offset) {
  const characters = [];
  let start = offset;
  for (const character of text) {
    characters.push([character, start, start + character.length]);
    start += character.length;
  }
  return characters;
}

function normalize(rules, text, offset) {
  let characters = clean(rules, readCharacters(text, offset));
  if (rules.stripAccents) characters = stripAccents(rules, characters);
  return rules.lowercase
    ? replaceEach(characters, (character) => rules.lowercaseOf.get(character) ?? character)
    : characters;
}

const kindOf = (rules, character) => rules.table[character.codePointAt(0)];

function clean(rules, characters) {
  return characters.flatMap((character) => {
    const [text, start, end] = character;
    const kind = kindOf(rules, text);
    const blank = [" ", start, end];
    if (kind & BITS.dropped) return [];
    if (kind & BITS.blanks) return [blank];
    return kind & BITS.ideographs ? [blank, character, blank] : [character];
  });
}

// Each character in what it becomes, which is at the same place in the input.
const replaceEach = (characters, replace) => characters.flatMap(([character, start, end]) =>
  [...replace(character)].map((part) => [part, start, end]));

function stripAccents(rules, characters) {
  const decomposes = (character) => kindOf(rules, character) & BITS.decomposes;
  const parts = replaceEach(characters, (character) =>
    (decomposes(character) ? character.normalize("NFD") : character));
  orderMarks(rules, parts);
  return parts.filter(([part]) => !(kindOf(rules, part) & BITS.marks));
}

// Unicode's canonical order of marks: those of different classes after a letter are sorted. Stripped
// marks matter to it only by ending a run of sorted ones.
function orderMarks(rules, parts) {
  const classOf = ([part]) => rules.classes.get(part.codePointAt(0)) || 0;
  for (let place = 1; place < parts.length; place += 1) {
    const own = classOf(parts[place]);
    if (!own) continue;
    for (let before = place; before > 0; before -= 1) {
      const other = parts[before - 1];
      const kind = kindOf(rules, other[0]);
      const isStripped = kind & BITS.marks && !(kind & BITS.unordered);
      if (!isStripped && classOf(other) <= own) break;
      [parts[before - 1], parts[before]] = [parts[before], other];
    }
  }
}

// Words are lists of characters; a punctuation mark is a word.
function splitWords(rules, characters) {
  const words = [];
  let word = null;
  for (const character of characters) {
    const kind = kindOf(rules, character[0]);
    if (kind & (BITS.blanks | BITS.punctuation)) word = null;
    if (kind & BITS.blanks) continue;
    if (!word) {
      word = [];
      words.push(word);
    }
    word.push(character);
    if (kind & BITS.punctuation) word = null;
  }
  return words;
}

// The longest piece first; a word with a rest that is no piece is unknown as a whole.
function splitPieces(rules, word) {
  const unknown = [{ id: rules.unknownId, start: startOf(word), end: endOf(word) }];
  if (word.length > rules.maxWordChars) return unknown;
  const pieces = [];
  for (let start = 0; start < word.length;) {
    let end = word.length;
    let id;
    while (end > start && id === undefined) {
      const part = word.slice(start, end);
      id = rules.vocabulary.get((start ? "##" : "") + part.map(([letter]) => letter).join(""));
      if (id === undefined) end -= 1;
      else pieces.push({ id, start: startOf(part), end: endOf(part) });
    }
    if (id === undefined) return unknown;
    start = end;
  }
  return pieces;
}

const startOf = (characters) => characters.reduce((least, [, start]) => Math.min(least, start), Infinity);
const endOf = (characters) => characters.reduce((most, [, , end]) => Math.max(most, end), 0);

// The pieces of a text. Added tokens ("[MASK]") are found first in the text as it stands, then those
// that are looked for in what is normalized.
function splitText(rules, text) {
  return findAdded(rules.addedAsWritten, text).flatMap(({ token, start, end }) => (
    token ? [{ id: token.id, start, end }] : splitNormalized(rules, normalize(rules, text.slice(start, end), start))
  ));
}

function splitNormalized(rules, characters) {
  const places = characters.flatMap(([letter], index) => Array(letter.length).fill(index));
  const text = characters.map(([letter]) => letter).join("");
  return findAdded(rules.addedNormalized, text).flatMap(({ token, start, end }) => {
    const part = characters.slice(places[start] ?? 0, end ? places[end - 1] + 1 : 0);
    if (token) return [{ id: token.id, start: startOf(part), end: endOf(part) }];
    return splitWords(rules, part).flatMap((word) => splitPieces(rules, word));
  });
}

// Tokens to look for, the longest of those that begin at a place.
function prepareAdded(tokens) {
  const sorted = tokens.filter(({ pattern }) => pattern).sort((a, b) => b.pattern.length - a.pattern.length);
  const escape = (pattern) => pattern.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  return {
    tokens: new Map(sorted.map((token) => [token.pattern, token])),
    search: sorted.length ? new RegExp(sorted.map(({ pattern }) => escape(pattern)).join("|"), "gu") : null,
  };
}

const ENDS_WITH_WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]$/u;
const BLANKS_BEFORE = /\p{White_Space}*$/u;
const BLANKS_AFTER = /^\p{White_Space}*/u;
const BEGINS_WITH_WORD = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;

// The text in parts: an added token, with the blanks that it takes along, or what is between two.
function findAdded({ tokens, search }, text) {
  const parts = [];
  let last = 0;
  for (const match of search ? text.matchAll(search) : []) {
    const token = tokens.get(match[0]);
    const before = text.slice(0, match.index);
    const after = text.slice(match.index + match[0].length);
    if (token.single_word && (ENDS_WITH_WORD.test(before) || BEGINS_WITH_WORD.test(after))) continue;
    const start = Math.max(last, token.lstrip ? before.search(BLANKS_BEFORE) : match.index);
    const end = match.index + match[0].length + (token.rstrip ? after.match(BLANKS_AFTER)[0].length : 0);
    if (last < start) parts.push({ start: last, end: start });
    parts.push({ token, start, end });
    last = end;
  }
  if (last < text.length) parts.push({ start: last, end: text.length });
  return parts;
}

// [CLS] text [SEP], or [CLS] text [SEP] pair [SEP], cut to the model's length.
function encode(rules, text, pair) {
  const first = splitText(rules, text);
  const second = pair === null ? [] : splitText(rules, pair);
  const least = pair === null ? 2 : 3;  // [CLS] and one or two [SEP]
  if (rules.maxLength < least) throw new Error(`the model must take at least ${least} tokens, got ${rules.maxLength}`);
  const [firstLength, secondLength] = chooseLengths(first.length, second.length, rules.maxLength - least);
  const special = (role, segment) => ({ id: rules.added.get(rules.special[role]).id, start: 0, end: 0, segment });
  const take = (pieces, length, segment) => cut(rules, pieces, length).map((piece) => ({ ...piece, segment }));
  const sequence = [special("cls", 0), ...take(first, firstLength, 0), special("sep", 0)];
  if (pair !== null) sequence.push(...take(second, secondLength, rules.secondSegment), special("sep", rules.secondSegment));
  const specialIds = new Set(Object.values(rules.special).map((token) => rules.added.get(token).id));
  return {
    truncated: firstLength < first.length || secondLength < second.length,
    tokens: sequence.map((token) => ({ ...token, text: rules.tokens[token.id], special: specialIds.has(token.id) })),
  };
}

const cut = (rules, pieces, length) =>
  (rules.truncationSide === "left" ? pieces.slice(pieces.length - length) : pieces.slice(0, length));

// Of two texts the longer one is cut until both are equally long.
function chooseLengths(first, second, room) {
  if (first + second <= room) return [first, second];
  let short = Math.min(first, second);
  let long = short > room ? short : Math.max(short, room - short);
  if (short + long > room) {
    short = Math.floor(room / 2);
    long = room - short;
  }
  return first > second ? [long, short] : [short, long];
}
