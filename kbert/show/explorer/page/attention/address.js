// What is shown of attention, as part of the state and of the address; the head and the token that
// asks stand there as the chosen layer and the lit token.

const ATTENTION_STATE = {
  hidesSpecial: false,  // whether [CLS] and [SEP] are left out
  to: -1,               // the token that is asked; -1: the one that gets most
  allHeads: false,      // whether the heads of all blocks are open
};

function attentionSettings() {
  return [
    ...(state.hidesSpecial ? ["special=hidden"] : []),
    ...(state.to >= 0 ? [`to=${state.to}`] : []),
    ...(state.allHeads ? ["heads=all"] : []),
  ];
}

function readAttention({ special, to, heads }) {
  return {
    hidesSpecial: special === "hidden",
    to: /^\d+$/.test(to) ? Number(to) : ATTENTION_STATE.to,
    allHeads: heads === "all",
  };
}

// Changes a part of it.
function setAttention(change) {
  Object.assign(state, change);
  keepSentenceInUrl();
}

function goToHead(block, head) {
  state.to = -1;
  go(`Encoder-${block}-MultiHeadSelfAttention/head-${head + 1}`);
}
