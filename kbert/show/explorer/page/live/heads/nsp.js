// The NSP head: whether the second text follows the first.

OUTPUTS.nsp = (run) => {
  if (!run.heads.NSP || !run.pooled) return undefined;
  return { isNext: softmax(applyHead(run, "NSP", run.pooled, []), 2)[0] };
};
