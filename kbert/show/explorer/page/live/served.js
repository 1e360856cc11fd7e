// The model behind a page that `kbert explore --serve` gives: kbert computes, on the same machine.

// The newest request wins: what it replaces is broken off, and rejects with an AbortError.
PLACES.served = (live) => {
  const { readTrace } = makeEngine();
  let waiting = null;
  const run = async (request) => {
    waiting?.abort();
    waiting = new AbortController();
    const buffer = await askServer(request, waiting.signal);
    // the length of the header, the header as JSON, and the numbers, as serving.py writes them
    const length = new DataView(buffer).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    return readTrace(header, new Float32Array(buffer, 4 + length), live.config);
  };
  return { run, canType: true };
};

async function askServer(request, signal) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request), signal };
  const response = await fetch("trace", options).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("kbert does not answer: was the command stopped?");
  });
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.arrayBuffer();
}
