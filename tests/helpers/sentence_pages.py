"""Pages of the explorer with a sentence and a made-up model, for tests of what they draw."""

from pathlib import Path

from kbert.graph.spec import GraphSpec
from kbert.show.explorer import counting, writing
from kbert.show.explorer.figure import figure_data

MODEL = Path(__file__).with_name("made_up_model.js")


def write_live_page(path: Path, config="tiny", head: str = "pretraining", **live) -> Path:
    """Write a page whose sentence goes through the made-up model."""
    spec = GraphSpec.of(config, head)
    kinds = counting.graphs(spec)
    c = spec.config
    sizes = {
        "L": c.num_hidden_layers,
        "H": c.hidden_size,
        "A": c.num_attention_heads,
        "F": c.intermediate_size,
        "T": c.vocab_size,
        "P": c.max_position_embeddings,
        "G": c.type_vocab_size,
        "eps": c.layer_norm_eps,
        "activation": c.hidden_act,
    }
    data = {
        "title": "made up",
        **counting.counting_data(spec, 1),
        **writing.notes_data(),
        "variables": counting.list_variables(spec),
        "figure": figure_data(kinds),
        "live": {
            "config": sizes,
            "head": head,
            "place": "inside",
            "precision": "float32",
            "outputs": ["mlm", "nsp", "vector"],
            "sentences": ["The animal did not cross the street because it was too tired."],
            "recordings": [],
        }
        | live,
    }
    page = writing.write_page("made up", data, counting.list_formulas(kinds))
    start, end = page.rsplit("})();", 1)  # of two functions openModel, the last one is called
    script = MODEL.read_text(encoding="utf-8")
    path.write_text(f"{start}{script}}})();{end}", encoding="utf-8")
    return path
