"""transformers' BERT with random weights, run in a process of its own: what to compare with.

    python -m helpers.peer_bert SIZES_AS_JSON OUT

The sizes are a list. For each of them, OUT/0.npz and so on hold every parameter under its name,
the ids, and what transformers computes from them.
"""

import json
import sys
from pathlib import Path

import numpy as np

from helpers.peer_weights import draw_weights

CASES = (  # settings that differ, each with an activation and an epsilon of its own
    {},
    {"hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "num_hidden_layers": 1},
    {"hidden_act": "relu", "layer_norm_eps": 1e-3, "num_hidden_layers": 1},
)


def main(sizes: dict, path: Path, batch: int, lengths: tuple[int, ...]) -> None:
    import torch
    from transformers import BertConfig, BertForPreTraining

    config = BertConfig(**sizes, attn_implementation="eager")
    model = BertForPreTraining(config).eval()
    draw_weights(model, 5)
    random = np.random.default_rng(7)
    token_ids = random.integers(1, config.vocab_size, (batch, max(lengths)))
    for row in range(batch):
        token_ids[row, lengths[row % len(lengths)] :] = 0
    segment_ids = random.integers(0, config.type_vocab_size, token_ids.shape)
    with torch.no_grad():
        outputs = model(
            torch.tensor(token_ids),
            attention_mask=torch.tensor((token_ids != 0).astype("int64")),
            token_type_ids=torch.tensor(segment_ids),
            output_hidden_states=True,
            output_attentions=True,
        )
        pooled = model.bert.pooler(outputs.hidden_states[-1])
    arrays = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    np.savez(
        path,
        token_ids=token_ids,
        segment_ids=segment_ids,
        mlm_logits=outputs.prediction_logits.numpy(),
        nsp_logits=outputs.seq_relationship_logits.numpy(),
        pooled_output=pooled.numpy(),
        hidden_states=np.stack([state.numpy() for state in outputs.hidden_states]),
        attentions=np.stack([weights.numpy() for weights in outputs.attentions]),
        **arrays,
    )


if __name__ == "__main__":
    for place, one in enumerate(json.loads(sys.argv[1])):
        main(one, Path(sys.argv[2]) / f"{place}.npz", batch=13, lengths=(11, 7, 3))
