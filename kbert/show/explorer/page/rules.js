// Which configurations make sense, in the words of kbert's own errors.

const MOST = 2147483647;
const RULED = ["T", "H", "L", "A", "FFD", "P", "G", "S", "M", "K", "B"];  // as Python asks

// By letter, what is wrong with a value; in the order of Python's checks.
function problems(config) {
  const found = {};
  for (const letter of RULED) {
    const optional = letter === "M" && config.M === null;
    if (DATA.letters[letter] && !optional) {
      const text = wholeNumber(letter, config[letter]) || limit(letter, config, found);
      if (text) found[letter] = text;
    }
    if (letter === "G") sizes(config, found);
  }
  return found;
}

function wholeNumber(letter, value) {
  const name = DATA.letters[letter].key;
  if (!Number.isInteger(value) || value < 1) {
    const shown = Number.isNaN(value) ? "nothing that is a number" : value;
    return `${name} must be a whole number of at least 1, got ${shown}`;
  }
  if (value <= MOST) return "";
  return `${name} must be at most ${MOST.toLocaleString("en-US")}, got ${value}`;
}

function sizes(config, found) {
  if (!found.H && !found.A && config.H % config.A) {
    found.A = `hidden_size must be a multiple of num_attention_heads, got ${config.H} and ` +
      `${config.A}: heads that divide it: ${nearestHeads(config)}`;
  }
  if (!found.T && DATA.pad >= config.T) {
    found.T = "pad_token_id must be a token of the vocabulary, 0 … " +
      `${config.T - 1}, got ${DATA.pad}`;
  }
}

function limit(letter, config, found) {
  if (letter === "S" && !found.P && config.S > positionsOf(config)) {
    const unused = DATA.firstPosition ? ` - ${DATA.firstPosition}` : "";
    return `seq_len must be at most max_position_embeddings${unused} = ` +
      `${positionsOf(config)}, got ${config.S}`;
  }
  if (letter === "M" && !found.S && config.M > config.S) {
    return `max_predictions must be at most seq_len = ${config.S}, got ${config.M}`;
  }
  return "";
}

// The numbers that divide another, those nearest to a value first.
function nearestDivisors(number, value) {
  const small = [];
  for (let n = 1; n * n <= number; n += 1) if (number % n === 0) small.push(n);
  const all = new Set([...small, ...small.map((n) => number / n)]);
  return [...all].sort((a, b) => Math.abs(a - value) - Math.abs(b - value) || a - b);
}

const nearestHeads = ({ H, A }) =>
  nearestDivisors(H, A).slice(0, 3).sort((a, b) => a - b).join(", ");
