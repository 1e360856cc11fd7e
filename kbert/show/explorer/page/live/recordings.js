// The page has recordings of sentences alone.

PLACES.recorded = (live) => {
  const { findRecording } = makeEngine();
  return { run: (request) => findRecording(live, request), canType: false };
};
