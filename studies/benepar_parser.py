"""Train benepar's chart parser (Kitaev et al. 2019), small, on trees with labels.

The parser reads words by a character LSTM, or by a pretrained encoder that is finetuned.

python benepar_parser.py TREES MODEL.pt [--steps N]
python benepar_parser.py TREES FOLDER --encoder ENCODER [--steps N]

``pdtools parse --model MODEL.pt`` (or ``FOLDER``) takes what it writes. The package has the model and its
loss, and nothing that trains it. A killed run continues from ``MODEL.pt.state``.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nltk
import torch
from benepar.char_lstm import RetokenizerForCharLSTM
from benepar.decode_chart import ChartDecoder
from benepar.nkutil import HParams
from benepar.parse_chart import ChartParser
from benepar.ptb_unescape import guess_space_after, ptb_unescape

from pdtools.parsers.benepar import as_typed, special_tokens_asked_for

MAX_WORDS = 100  # of a sentence that is trained on: spans grow with its square
SENTENCES = 32  # a step, of similar length
SUBBATCH_TOKENS = 1000
ENCODER_RATE = 0.05  # of the other weights' rate: pretrained weights are finetuned with 5e-5
KEPT_EVERY = 200  # steps


@dataclass(frozen=True)
class Example:
    """A tree as benepar asks for it; whether a space follows each word is guessed, as it is when parsing."""

    tree: nltk.Tree
    words: list[str]
    space_after: list[bool]

    def leaves(self) -> list[str]:
        """Words as in the tree."""
        return self.tree.leaves()

    def pos(self) -> list[tuple[str, str]]:
        """Words and their tags."""
        return self.tree.pos()


def read(file: str) -> list[Example]:
    """One tree a line, without those that benepar does not take, or not soon."""
    with open(file, encoding="utf-8") as lines:
        trees = [nltk.Tree.fromstring(line) for line in lines]
    kept = [tree for tree in trees if is_trained_on(tree)]
    print(f"{len(kept)} of {len(trees)} trees", flush=True)
    return [example_of(tree) for tree in kept]


def example_of(tree: nltk.Tree) -> Example:
    """The tree with its words as in text: without the escapes of treebanks, quotes and dashes as typed."""
    words = [as_typed(word) for word in ptb_unescape(tree.leaves())]
    # benepar takes off a TOP, and collapses the unary chains below it, not those of the root.
    return Example(nltk.Tree("TOP", [tree]), words, guess_space_after(tree.leaves()))


def is_trained_on(tree: nltk.Tree) -> bool:
    """Not too long, every word under a tag of its own, and more than one tag with its word."""
    in_tags = sum(1 for _ in tree.subtrees(lambda each: len(each) == 1 and isinstance(each[0], str)))
    return in_tags == len(tree.leaves()) <= MAX_WORDS and tree.height() > 2


def shape(trees: Sequence[nltk.Tree], width: int, encoder: str | None) -> HParams:
    """The shape of a parser that two cores can train: benepar's own has a width of 1,024 and 8 layers."""
    return HParams(
        use_chars_lstm=encoder is None,
        use_pretrained=encoder is not None,
        pretrained_model=encoder,
        use_encoder=True,
        d_model=width,
        num_layers=2,
        num_heads=4,
        d_kv=width // 4,
        d_ff=2 * width,
        d_char_emb=32,
        d_label_hidden=width // 2,
        d_tag_hidden=width // 2,
        encoder_max_len=MAX_WORDS + 2,  # positions that it was not trained with say nothing
        predict_tags=True,
        tag_loss_scale=5.0,
        force_root_constituent=ChartDecoder.infer_force_root_constituent(trees),
        char_lstm_input_dropout=0.1,
        morpho_emb_dropout=0.1,
        relu_dropout=0.1,
        residual_dropout=0.1,
        attention_dropout=0.1,
    )


def batches(examples: Sequence[Example], draws: random.Random) -> Iterator[list[Example]]:
    """Without end, every sentence once a pass."""
    while True:
        ordered = sorted(examples, key=lambda each: (len(each.words), draws.random()))
        parts = [ordered[first : first + SENTENCES] for first in range(0, len(ordered), SENTENCES)]
        draws.shuffle(parts)
        yield from parts


def untrained(examples: Sequence[Example], hparams: HParams) -> ChartParser:
    """A parser of the tags, labels and characters of these sentences."""
    tags = sorted({tag for example in examples for _, tag in example.pos()})
    with special_tokens_asked_for():
        return ChartParser(
            tag_vocab={tag: index for index, tag in enumerate(["UNK", *tags])},
            label_vocab=ChartDecoder.build_vocab([example.tree for example in examples]),
            char_vocab=RetokenizerForCharLSTM.build_vocab([example.words for example in examples]),
            hparams=hparams,
        )


def train(
    examples: Sequence[Example],
    steps: int,
    width: int,
    rate: float,
    seed: int,
    *,
    encoder: str | None = None,
    state: Path | None = None,
) -> ChartParser:
    """Train by Adam, its rate rising over a tenth of the steps, then falling to 0.

    Args:
        examples: the sentences.
        steps: of :data:`SENTENCES` sentences.
        width: of the layers above characters or encoder.
        rate: the highest; that of the encoder's weights is :data:`ENCODER_RATE` times as high.
        seed: of weights, dropout and order.
        encoder: a pretrained model's folder; None: a character LSTM.
        state: a file that is written every :data:`KEPT_EVERY` steps, and continued from where it exists.
    """
    torch.manual_seed(seed)
    parser = untrained(examples, shape([example.tree for example in examples], width, encoder))
    pretrained = list(parser.pretrained_model.parameters()) if encoder is not None else []
    known = {id(parameter) for parameter in pretrained}
    others = [parameter for parameter in parser.parameters() if id(parameter) not in known]
    groups = [{"params": others, "lr": rate}, {"params": pretrained, "lr": rate * ENCODER_RATE}]
    optimizer = torch.optim.Adam([group for group in groups if group["params"]])
    rising = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / rising, (steps - step) / max(1, steps - rising))
    )
    done, losses = 0, list[float]()
    if state is not None and state.exists():
        kept = torch.load(state, weights_only=True)
        parser.load_state_dict(kept["parser"])
        optimizer.load_state_dict(kept["optimizer"])
        schedule.load_state_dict(kept["schedule"])
        torch.set_rng_state(kept["random"])
        done = kept["step"]
    parser.train()
    start = time.monotonic()
    order = enumerate(itertools.islice(batches(examples, random.Random(seed)), steps), start=1)
    for step, batch in itertools.islice(order, done, None):
        optimizer.zero_grad()
        total = 0.0
        for _, part in parser.encode_and_collate_subbatches(batch, SUBBATCH_TOKENS):
            loss: Any = parser.compute_loss(part)
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(parser.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        losses.append(total)
        if step % 100 == 0 or step == steps:
            recent = losses[-100:]
            seconds = time.monotonic() - start
            print(f"step {step}, loss {sum(recent) / len(recent):.2f}, {seconds:.0f} s", flush=True)
        if state is not None and step % KEPT_EVERY == 0:
            kept = {"parser": parser, "optimizer": optimizer, "schedule": schedule}
            kept = {name: part.state_dict() for name, part in kept.items()}
            write_whole(state, {**kept, "random": torch.get_rng_state(), "step": step})
    return parser.eval()


def write_whole(file: Path, value: Any) -> None:
    """Save by torch, whole or not at all."""
    unfinished = file.with_name(f"{file.name}.part")
    torch.save(value, unfinished)
    unfinished.rename(file)


def save(parser: ChartParser, output: Path) -> None:
    """Write a parser as benepar does: a file, or with an encoder a folder that needs nothing else."""
    if parser.pretrained_model is None:
        write_whole(output, {"config": parser.config, "state_dict": parser.state_dict()})
        return
    output.mkdir(parents=True, exist_ok=True)
    parser.retokenizer.tokenizer.save_pretrained(output)
    config = parser.pretrained_model.config
    config.benepar = parser.config
    config.save_pretrained(output)
    write_whole(output / "benepar_model.bin", parser.state_dict())


def main() -> None:
    """Read the options, train, write the model as benepar does."""
    given = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    given.add_argument("trees", help="one tree a line, not binarized: pdtools parse --binarize none")
    given.add_argument("output", help="a file, MODEL.pt, or with --encoder a folder")
    given.add_argument(
        "--encoder", help="a folder of transformers: a pretrained encoder with a fast tokenizer"
    )
    given.add_argument("--steps", type=int, default=1600, help=f"of {SENTENCES} sentences")
    given.add_argument("--width", type=int, default=256)
    given.add_argument("--learning-rate", type=float, default=1e-3)
    given.add_argument("--seed", type=int, default=1)
    options = given.parse_args()
    torch.set_num_threads(1)
    output = Path(options.output)
    state = output.with_name(f"{output.name}.state")
    parser = train(
        read(options.trees),
        options.steps,
        options.width,
        options.learning_rate,
        options.seed,
        encoder=options.encoder,
        state=state,
    )
    save(parser, output)
    state.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
