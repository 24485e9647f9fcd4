"""Real stanza models for tests, of the toy grammar of ``toy_benepar``, trained in a few seconds.

They lie as stanza's downloader puts them: ``resources.json`` beside a folder for the language, with a folder
for each kind of model in it.
"""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nltk
from toy_benepar import WORDS, toy_trees

LANGUAGE = "en"
_NAME = "toy"


def make_toy_stanza(folder: Path) -> None:
    """Word vectors, a tagger, and a parser that reads its tags, as ``folder/en/KIND/toy.pt``."""
    import torch

    logging.getLogger("stanza").setLevel(logging.ERROR)
    torch.manual_seed(0)
    random.seed(0)
    trees = toy_trees(200, seed=1)
    for kind in ("pretrain", "pos", "constituency"):
        (folder / LANGUAGE / kind).mkdir(parents=True)
    vectors = folder / LANGUAGE / "pretrain" / f"{_NAME}.pt"
    make_vectors(vectors)
    train_tagger(trees, vectors, folder / LANGUAGE / "pos" / f"{_NAME}.pt")
    train_parser(trees, vectors, folder / LANGUAGE / "constituency" / f"{_NAME}.pt")
    write_resources(folder)


def write_resources(folder: Path) -> None:
    """Write ``resources.json``, by which stanza finds the parts of a model."""
    needs = [{"model": "pretrain", "package": _NAME}]
    resources: dict[str, Any] = {
        "english": {"alias": LANGUAGE},
        LANGUAGE: {
            "lang_name": "English",
            "pos": {_NAME: {"dependencies": needs}},
            "constituency": {_NAME: {"dependencies": needs}},
            "packages": {"default": {"pos": _NAME, "constituency": _NAME}},
        },
    }
    (folder / "resources.json").write_text(json.dumps(resources))


def make_vectors(path: Path) -> None:
    """Random vectors of the grammar's words."""
    import torch
    from stanza.models.common.pretrain import PretrainedWordVocab
    from stanza.models.common.vocab import VOCAB_PREFIX

    words = [plain(word) for several in WORDS.values() for word in several]
    vocabulary = PretrainedWordVocab(words, "toy")
    vectors = torch.randn(len(VOCAB_PREFIX) + len(words), 8)
    torch.save({"vocab": vocabulary.state_dict(), "emb": vectors}, path)


def train_tagger(trees: list[nltk.Tree], vectors: Path, path: Path) -> None:
    """A tagger of the trees' tags, as parts of speech and as the treebank's own."""
    from stanza.models.common.doc import Document
    from stanza.models.common.pretrain import Pretrain
    from stanza.models.pos.data import Dataset
    from stanza.models.pos.trainer import Trainer
    from stanza.models.tagger import parse_args

    small = "--hidden_dim 16 --char_hidden_dim 8 --char_emb_dim 8 --deep_biaff_hidden_dim 16 --word_emb_dim 8"
    more = "--tag_emb_dim 4 --transformed_dim 8 --num_layers 1 --dropout 0 --word_dropout 0 --lr 0.02"
    args = parse_args([*small.split(), *more.split(), "--shorthand", "en_toy", "--lang", LANGUAGE, "--cpu"])
    args["word_cutoff"] = 0
    document = Document(
        [
            [
                {"id": (k,), "text": plain(word), "upos": tag, "xpos": tag, "feats": "_"}
                for k, (word, tag) in enumerate(tree.pos(), 1)
            ]
            for tree in trees
        ]
    )
    pretrain = Pretrain(str(vectors))
    data = Dataset(document, args, pretrain)
    trainer = Trainer(args=args, vocab=data.vocab, pretrain=pretrain, device="cpu")
    for _ in range(3):
        for batch in data.to_loader(batch_size=20):
            trainer.update(batch)
    trainer.save(str(path))


def make_dependencies(folder: Path, models: Path) -> None:
    """Make a dependency parser and the models it reads, as ``folder/KIND/toy.pt``; copy vectors and tagger.

    Its weights are random, so that arcs cross and heads depend on all that it reads.
    """
    import torch

    torch.manual_seed(0)
    random.seed(0)
    for kind in ("pretrain", "pos"):
        shutil.copytree(models / kind, folder / kind)
    for kind in ("lemma", "depparse"):
        (folder / kind).mkdir()
    trees = toy_trees(100, seed=2)
    save_lemmatizer(trees, folder / "lemma" / f"{_NAME}.pt")
    save_dependency_parser(trees, folder / "pretrain" / f"{_NAME}.pt", folder / "depparse" / f"{_NAME}.pt")


def save_lemmatizer(trees: list[nltk.Tree], path: Path) -> None:
    """A dictionary of lemmas, words of the grammar without their last letters."""
    from stanza.models.common.doc import Document
    from stanza.models.lemma.data import DataLoader
    from stanza.models.lemma.trainer import Trainer
    from stanza.models.lemmatizer import parse_args

    args = parse_args(["--dict_only", "--shorthand", "en_toy", "--cpu"])
    document = Document([[_word(k, *each) for k, each in enumerate(tree.pos(), 1)] for tree in trees])
    trainer = Trainer(args=args, vocab=DataLoader(document, 100, args).vocab)
    trainer.train_dict(document.get(["text", "upos", "lemma"]))
    trainer.save(str(path))


def save_dependency_parser(trees: list[nltk.Tree], vectors: Path, path: Path) -> None:
    """A parser of dependencies with random weights."""
    import torch
    from stanza.models.common.doc import Document
    from stanza.models.common.pretrain import Pretrain
    from stanza.models.depparse.data import DataLoader
    from stanza.models.depparse.trainer import GraphTrainer
    from stanza.models.parser import parse_args

    small = "--hidden_dim 16 --char_hidden_dim 8 --char_emb_dim 8 --deep_biaff_hidden_dim 16 --word_emb_dim 8"
    more = "--deep_biaff_output_dim 8 --tag_emb_dim 8 --transformed_dim 8 --num_layers 1 --word_cutoff 0"
    files = ["--wordvec_pretrain_file", str(vectors), "--shorthand", "en_toy", "--lang", LANGUAGE, "--cpu"]
    alone = ["--no_distance", "--no_linearization"]
    args = parse_args([*small.split(), *more.split(), *files, *alone])
    document = Document([[_word(k, *each) for k, each in enumerate(tree.pos(), 1)] for tree in trees])
    pretrain = Pretrain(str(vectors))
    vocabulary = DataLoader(document, 100, args, pretrain).vocab
    trainer = GraphTrainer(args=args, vocab=vocabulary, pretrain=pretrain, device="cpu")
    for weights in trainer.model.unlabeled.parameters():  # zeros otherwise
        torch.nn.init.normal_(weights)
    trainer.save(str(path))


def _word(k: int, word: str, tag: str) -> dict[str, Any]:
    word = plain(word)
    relation = "dep" if k > 1 else "root"
    columns = {"id": (k,), "text": word, "lemma": word[:-1] or word, "upos": tag, "xpos": tag, "feats": "_"}
    return {**columns, "head": k - 1, "deprel": relation}


# Tokens of several words: one is spelled by them, as "cannot" is, the other is not, as "du" (de le).
CONTRACTIONS: dict[tuple[str, ...], str] = {("in", "the"): "inthe", ("near", "the"): "nethe"}


def make_tokenizer(folder: Path) -> None:
    """Make a tokenizer for the grammar, and an expander of contractions, as ``folder/KIND/toy.pt``."""
    import torch

    torch.manual_seed(0)
    random.seed(0)
    for kind in ("tokenize", "mwt"):
        (folder / kind).mkdir()
    train_tokenizer(toy_trees(200, seed=3), folder / "tokenize" / f"{_NAME}.pt")
    save_expander(folder / "mwt" / f"{_NAME}.pt")


def train_tokenizer(trees: list[nltk.Tree], path: Path) -> None:
    """A tokenizer of sentences as people write them, four in a paragraph."""
    from stanza.models.tokenization.data import DataLoader
    from stanza.models.tokenization.trainer import Trainer
    from stanza.models.tokenizer import DEFAULT_FEAT_FUNCS, parse_args

    names = ["--shorthand", "en_toy", "--lang", LANGUAGE, "--cpu"]
    small = "--hidden_dim 16 --emb_dim 8 --batch_size 16 --max_seqlen 200 --lr0 0.02 --dropout 0"
    noise = [
        f"--{each} 0" for each in ("unit_dropout", "feat_dropout", "feat_unit_dropout", "split_mwt_prob")
    ]
    args = parse_args([*names, *small.split(), *" ".join(noise).split()])
    args |= {"feat_funcs": DEFAULT_FEAT_FUNCS, "feat_dim": len(DEFAULT_FEAT_FUNCS), "num_dict_feat": 0}
    text, labels = path.with_suffix(".txt"), path.with_suffix(".labels")
    written = [toy_text([tree.leaves() for tree in trees[k : k + 4]]) for k in range(0, len(trees), 4)]
    text.write_text("\n\n".join(characters for characters, _ in written))
    labels.write_text("\n\n".join(numbers for _, numbers in written))
    data = DataLoader(args, input_files={"txt": str(text), "label": str(labels)})
    args |= {"vocab_size": len(data.vocab), "use_mwt": True}
    trainer = Trainer(args=args, vocab=data.vocab, device="cpu")
    for _ in range(60):
        trainer.update(data.next())
    trainer.save(str(path))
    text.unlink()
    labels.unlink()


def toy_text(sentences: Sequence[Sequence[str]]) -> tuple[str, str]:
    """Sentences as people write them, with contractions, and Stanza's label of each character.

    0 within a token, 1 at its end, 2 at the end of a sentence, 3 at the end of a token of several words.
    """
    text, labels = "", ""
    for words in sentences:
        k = 0
        while k < len(words):
            contraction = CONTRACTIONS.get(tuple(words[k : k + 2]))
            token = contraction or plain(words[k])
            if text and token not in ".)" and text[-1] != "(":
                text, labels = text + " ", labels + "0"
            k += 2 if contraction else 1
            end = "3" if contraction else "2" if k == len(words) else "1"
            text, labels = text + token, labels + "0" * (len(token) - 1) + end
    return text, labels


def save_expander(path: Path) -> None:
    """A dictionary of contractions."""
    from stanza.models.mwt.trainer import Trainer
    from stanza.models.mwt.vocab import Vocab
    from stanza.models.mwt_expander import parse_args

    args = vars(parse_args(["--dict_only", "--shorthand", "en_toy", "--cpu"]))
    pairs = [(token, " ".join(words)) for words, token in CONTRACTIONS.items()]
    trainer = Trainer(args=args, vocab=Vocab(pairs, "en_toy"))
    trainer.train_dict(pairs)
    trainer.save(str(path))


def train_parser(trees: list[nltk.Tree], vectors: Path, path: Path, tags: int = 8, epochs: int = 6) -> None:
    """A parser of trees under ``ROOT``; it reads no tags, if their vectors have no dimensions."""
    import torch
    from stanza.models.common.foundation_cache import FoundationCache
    from stanza.models.constituency import parser_training, tree_reader
    from stanza.models.constituency_parser import parse_args

    sizes = {
        "hidden_size": 32,
        "transition_hidden_size": 16,
        "transition_embedding_dim": 8,
        "delta_embedding_dim": 8,
        "tag_embedding_dim": tags,
        "pattn_num_layers": 0,
        "lattn_d_proj": 0,
        "train_batch_size": 20,
        "num_lstm_layers": 1,
        "word_dropout": 0,
        "predict_dropout": 0,
        "lstm_layer_dropout": 0,
        "lstm_input_dropout": 0,
    }
    options = [part for name, value in sizes.items() for part in (f"--{name}", str(value))]
    names = ["--wordvec_pretrain_file", str(vectors), "--shorthand", "en_toy", "--lang", LANGUAGE, "--cpu"]
    args = parse_args([*options, *names])
    read = tree_reader.read_trees("\n".join(f"(ROOT {' '.join(str(tree).split())})" for tree in trees))
    trainer, sequences, _, _ = parser_training.build_trainer(args, read, read, [], FoundationCache(), None)
    numbers = {each: torch.tensor([k]) for k, each in enumerate(trainer.model.transitions)}
    examples = [
        parser_training.TrainItem(tree, sequence, list(tree.yield_preterminals()))
        for tree, sequence in zip(read, sequences, strict=True)
    ]
    trainer.optimizer = torch.optim.Adam(trainer.model.parameters(), lr=0.01)
    trainer.model.train()
    for epoch in range(epochs):
        for start in range(0, len(examples), 20):
            parser_training.train_model_one_batch(
                epoch,
                start,
                trainer.model,
                examples[start : start + 20],
                numbers,
                lambda x: x,
                torch.nn.CrossEntropyLoss(reduction="sum"),
                None,
                args,
            )
            trainer.optimizer.step()
            trainer.optimizer.zero_grad()
    trainer.save(str(path), save_optimizer=False)


def plain(word: str) -> str:
    """A word of the grammar as people write it."""
    return {"-LRB-": "(", "-RRB-": ")"}.get(word, word)
