"""Real models for tests: a character LSTM parser trained on a toy grammar in a few seconds; a tiny BERT."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import nltk
from shell import script

# Unambiguous: a phrase after a noun belongs to that noun.
GRAMMAR = {
    "S": ["NP VP ."],
    "NP": ["DT NN", "DT NN", "DT JJ NN", "DT NN PP", "DT NN PRN"],
    "PRN": ["-LRB- NP -RRB-"],
    "PP": ["IN NP"],
    "VP": ["VBZ", "VBZ NP", "VBZ PP"],
}
WORDS = {
    "DT": ["the", "a"],
    "NN": ["dog", "cat", "park", "child", "man"],
    "JJ": ["big", "old"],
    "IN": ["in", "near"],
    "VBZ": ["sees", "likes", "sleeps"],
    ".": ["."],
    "-LRB-": ["-LRB-"],
    "-RRB-": ["-RRB-"],
}


def toy_trees(count: int, seed: int) -> list[nltk.Tree]:
    """Random trees of the toy grammar, of at most 20 words."""
    rng = random.Random(seed)

    def grow(label: str, depth: int) -> nltk.Tree:
        if label in WORDS:
            return nltk.Tree(label, [rng.choice(WORDS[label])])
        rules = GRAMMAR[label] if depth < 5 else GRAMMAR[label][:1]
        return nltk.Tree(label, [grow(child, depth + 1) for child in rng.choice(rules).split()])

    def endless() -> Iterator[nltk.Tree]:
        while True:
            tree = grow("S", 0)
            if len(tree.leaves()) <= 20:
                yield tree

    return [tree for tree, _ in zip(endless(), range(count), strict=False)]


def train_toy_model(path: Path, steps: int = 150) -> None:
    """Train on 200 toy trees and save in benepar's single-file format."""
    import torch
    from benepar.decode_chart import ChartDecoder
    from benepar.nkutil import HParams

    module = script(Path(__file__).parents[2] / "studies" / "benepar_parser.py")
    torch.manual_seed(0)
    rng = random.Random(0)
    trees = toy_trees(200, seed=1)
    examples = [module.example_of(tree) for tree in trees]
    hparams = HParams(
        use_chars_lstm=True,
        use_pretrained=False,
        use_encoder=True,
        d_model=64,
        num_layers=1,
        num_heads=2,
        d_kv=32,
        d_ff=64,
        d_char_emb=16,
        d_label_hidden=32,
        d_tag_hidden=32,
        encoder_max_len=512,
        predict_tags=True,
        tag_loss_scale=5.0,
        force_root_constituent=ChartDecoder.infer_force_root_constituent(trees),
        char_lstm_input_dropout=0.0,
        morpho_emb_dropout=0.0,
        relu_dropout=0.0,
        residual_dropout=0.0,
        attention_dropout=0.0,
    )
    parser = module.untrained(examples, hparams)
    optimizer = torch.optim.Adam(parser.parameters(), lr=3e-3)
    parser.train()
    for _ in range(steps):
        optimizer.zero_grad()
        for _, batch in parser.encode_and_collate_subbatches(rng.sample(examples, 20), 1000):
            parser.compute_loss(batch).backward()
        optimizer.step()
    module.save(parser, path)


def tiny_bert(folder: Path, words: Sequence[str]) -> None:
    """An untrained BERT of these (parts of) words, with its tokenizer, as transformers saves them."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
