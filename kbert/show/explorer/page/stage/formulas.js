// Formulas as MathML, from a short text: words, numbers, signs, a_b, a^b, frac{a}{b}, sqrt{a}. A
// minus sign at the beginning, or after one of ({=·, belongs to its number.

const FORMULA_PARTS =
  /(?<=^|[({=·] ?)−?\d[\d.,]*(?: %)?|[A-Za-zα-ωΑ-Ω]+|\d[\d.,]*(?: %)?|[{}^_]|\s+|./gu;

function mathOf(text) {
  const parts = text.match(FORMULA_PARTS).filter((part) => part.trim());
  const holder = document.createElement("template");
  holder.innerHTML = `<math displaystyle="true">${readRow(parts)}</math>`;
  return holder.content.firstChild;
}

function readRow(parts) {
  let row = "";
  while (parts.length && parts[0] !== "}") row += readScripted(parts);
  return row;
}

function readScripted(parts) {
  const base = readAtom(parts);
  const script = { _: "msub", "^": "msup" }[parts[0]];
  if (!script) return base;
  parts.shift();
  return `<${script}>${base}${readAtom(parts)}</${script}>`;
}

function readGroup(parts) {
  parts.shift();
  const row = `<mrow>${readRow(parts)}</mrow>`;
  parts.shift();
  return row;
}

function readAtom(parts) {
  if (parts[0] === "{") return readGroup(parts);
  const part = parts.shift();
  if (part === "frac") return `<mfrac>${readGroup(parts)}${readGroup(parts)}</mfrac>`;
  if (part === "sqrt") return `<msqrt>${readGroup(parts)}</msqrt>`;
  if (/^[A-Za-zα-ωΑ-Ω]/u.test(part)) return `<mi>${part}</mi>`;
  if (/^−?\d/.test(part)) return `<mn>${part.replace(" ", "\u00a0")}</mn>`;
  return `<mo${"()".includes(part) ? ' stretchy="false"' : ""}>${part.replace("<", "&lt;")}</mo>`;
}
