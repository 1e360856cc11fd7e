// The weights lie beside the page.

PLACES.beside = async (live) => {
  const engine = makeEngine();
  return startEngine(live, engine, joinParts(await loadParts(live), engine.decodeBase64));
};

// The file beside the page is a script: a page in a file may load nothing else.
async function loadParts({ file, digest }) {
  const script = h("script", { src: encodeURIComponent(file) });
  await new Promise((resolve, reject) => {
    script.onload = resolve;
    script.onerror = () => reject(new Error(`${file} must lie beside this page, and it does not.`));
    document.head.append(script);
  });
  script.remove();
  const { digest: other, parts } = self.kbertWeights || {};
  delete self.kbertWeights;
  if (!parts) throw new Error(`${file} is damaged: write the page and this file again.`);
  if (other !== digest) throw new Error(`${file} has the weights of another page: write both again.`);
  return parts;
}

function joinParts(parts, decode) {
  const decoded = parts.map((_, place) => decode(parts.splice(place, 1, "")[0]));
  const bytes = new Uint8Array(decoded.reduce((total, part) => total + part.length, 0));
  let start = 0;
  for (const part of decoded) {
    bytes.set(part, start);
    start += part.length;
  }
  return bytes;
}
