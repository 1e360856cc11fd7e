// A model of random numbers that depend on the token, its position and the layer: wordpieces of nine
// letters, all of the contract's tensors, ten candidates for each mask. It refuses "refused". `made` has its requests.
async function openModel(live) {
  globalThis.made = { runs: [] };
  const { L, H, A, F } = live.config;
  const random = (text) => {
    let seed = 2166136261;
    for (const letter of text) seed = Math.imul(seed ^ letter.charCodeAt(0), 16777619);
    return () => {
      seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
      return seed / 2147483648;
    };
  };
  const cut = (text, segment) => [...text.matchAll(/\[MASK\]|\w+|[^\w\s]/g)].flatMap((word) => {
    const pieces = word[0] === "[MASK]" ? [word[0]] : word[0].match(/.{1,9}/g);
    let start = word.index;
    return pieces.map((piece, place) => {
      start += piece.length;
      return { text: (place ? "##" : "") + piece, segment, special: false, start: start - piece.length, end: start };
    });
  });
  const mark = (text, segment) => ({ text, segment, special: true, start: 0, end: 0 });
  function tokenize({ text, pair }) {
    const tokens = [mark("[CLS]", 0), ...cut(text, 0), mark("[SEP]", 0)];
    if (pair !== null) tokens.push(...cut(pair, 1), mark("[SEP]", 1));
    for (const token of tokens) {
      const next = random(token.text);
      next();
      token.id = Math.floor(Math.abs(next()) * 30000);
    }
    return tokens;
  }
  const isCut = (request) => tokenize(request).length > live.config.P;
  function run(request) {
    const tokens = tokenize(request).slice(0, live.config.P);
    const [S, D] = [tokens.length, H / A];
    const tensors = new Map();
    const changed = JSON.stringify([request.off, request.temperature]);
    const add = (name, width, shape, more = "") => {
      const data = new Float32Array(S * width);
      tokens.forEach((token, place) => {
        const next = random(`${name} ${token.id} ${more}`);
        for (let at = 0; at < width; at += 1) data[place * width + at] = next() + 0.3 * next();
      });
      tensors.set(name, { shape, data });
    };
    const vectors = (name, more) => add(name, H, [S, H], more);
    for (const name of ["Embedding-Token", "Embedding-Segment", "Embedding-Position/position"]) vectors(name);
    for (const name of ["Embedding-Position", "Embedding-Norm"]) vectors(name, request.off.positions);
    for (let n = 1; n <= L; n += 1) {
      const attention = `Encoder-${n}-MultiHeadSelfAttention`;
      for (const part of ["query", "key", "value", "context"]) add(`${attention}/${part}`, H, [S, A, D], changed);
      const probs = new Float32Array(A * S * S);
      for (let row = 0; row < A * S; row += 1) {
        const next = random(`${attention} ${row} ${tokens[row % S].id}`);
        const scores = Array.from({ length: S }, () => Math.exp(3 * next()));
        const sum = scores.reduce((a, b) => a + b);
        scores.forEach((score, key) => (probs[row * S + key] = score / sum));
      }
      tensors.set(`${attention}/probs`, { shape: [A, S, S], data: probs });
      tensors.set(`${attention}/scores`, { shape: [A, S, S], data: probs.map(Math.log) });
      vectors(attention, changed);
      for (const end of ["-MultiHeadSelfAttention-Add", "-MultiHeadSelfAttention-Norm", "-FeedForward", "-FeedForward-Add", "-FeedForward-Norm"]) {
        vectors(`Encoder-${n}${end}`, changed);
      }
      add(`Encoder-${n}-FeedForward/intermediate`, F, [S, F], changed);
      add(`Encoder-${n}-FeedForward/activation`, F, [S, F], changed);
    }
    const words = ["river", "bank", "money", "water", "house", "tree", "word", "day", "boat", "light"];
    const candidates = (seed) => {
      const next = random(seed);
      const weights = words.map((token) => [token, Math.exp(4 * next())]).sort((a, b) => b[1] - a[1]);
      const sum = weights.reduce((all, [, weight]) => all + weight, 0);
      return weights.map(([token, weight]) => ({ token, prob: weight / sum }));
    };
    const mlm = tokens.map((token, position) => ({ token, position })).filter(({ token, position }) => token.text === "[MASK]" || request.positions.includes(position))
      .map(({ position }) => ({ position, candidates: candidates(request.text + position),
        blocks: Array.from({ length: L }, (_, n) => candidates(request.text + position + n)) }));
    for (const name of ["MLM-Dense", "MLM-Norm"]) vectors(name);
    const outputs = { mlm, nsp: { isNext: 0.83 }, vector: tensors.get(`Encoder-${L}-FeedForward-Norm`).data.slice(0, H) };
    return { request, milliseconds: 4.2, tokens, truncated: isCut(request), tensors, outputs };
  }
  return {
    canType: live.place !== "recorded",
    run: async (request) => {
      made.runs.push(request);
      if (request.text.includes("refused")) throw new Error("the text is refused");
      await new Promise((resolve) => setTimeout(resolve));
      return run(request);
    },
  };
}
