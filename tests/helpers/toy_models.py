"""Tiny models of every kind, over the words a, b and c, in memory."""

from __future__ import annotations

from pathlib import Path

import torch
from action_oracle import action_model
from search_oracle import tiny_model

from pdtools.models import LanguageModel, LoadedModel, build_model, make_config
from pdtools.tokenization import train_word_tokenizer

LABELS = ("S", "NP")


def loaded(name: str, model: LanguageModel) -> LoadedModel:
    tokenizer = train_word_tokenizer(["a", "b", "c"], text_style="ptb", unk=False).with_labels(LABELS)
    model.use_tokenizer(tokenizer)
    shards = {"layout": model.layout, "factor": "right", "window": 12}
    return LoadedModel(model.eval(), tokenizer, {"model": name, "shards": shards}, Path(name))


def recurrent() -> LanguageModel:
    torch.manual_seed(0)
    ids = {"vocab_size": 6, "pad_id": 0, "root_id": 1, "eos_id": 2}
    stack = {"stack": "nondeterministic", "stack_vector": 2, "hidden_size": 6}
    model = build_model("rnn", make_config("rnn", {**ids, **stack}))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


def toy_models() -> dict[str, LoadedModel]:
    """Tiny models by kind."""
    made = {
        "pushdown": tiny_model("pushdown"),
        "window": tiny_model("pushdown", layout="window"),
        "head": tiny_model("transformer", attachment_head=True),
        "base": tiny_model("transformer"),
        "treereg": tiny_model("transformer", treereg_layer=2, treereg_share=0.5),
        "stack-attention": tiny_model("transformer", stack_layers="all"),
        "rnn": recurrent(),
        "tg": action_model("tg", "relative"),
        "plm": action_model("plm", "learned", max_length=64),
        "plm-mask": action_model("plm-mask", "none"),
        "gilt": tiny_model("gilt", feature_width=4, arcs="set"),
    }
    return {name: loaded(name, model) for name, model in made.items()}
