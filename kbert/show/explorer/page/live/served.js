// The model behind a page that `kbert explore --serve` gives: kbert computes, on the same machine.

function openServed(live) {
  let waiting = null;
  // The newest request wins: what it replaces is broken off, and rejects with an AbortError.
  const run = async (request) => {
    waiting?.abort();
    const control = waiting = new AbortController();
    try {
      return unpackTrace(await askServer(request, control.signal), live.config);
    } finally {
      if (waiting === control) waiting = null;
    }
  };
  return { run, canType: true };
}

async function askServer(request, signal) {
  let response;
  try {
    response = await fetch("trace", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(request),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("kbert does not answer: was the command stopped?");
  }
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.arrayBuffer();
}

// The length of the header, the header as JSON, and the numbers, as serving.py writes them.
function unpackTrace(buffer, config) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return readTrace(header, new Float32Array(buffer, 4 + length), config);
}
