"""The released Pushdown LM: its authors' code beside an import of the same random weights.

    OMP_NUM_THREADS=1 python benchmarks/released.py CHECKOUT [--full] [--beams 1,10,300]

``CHECKOUT`` is a copy of github.com/MurtyShikhar/Pushdown-Layers; nothing of it is kept here. It runs on the
CPU: a temporary copy has ``cpu`` where it names a GPU, and nothing in place of packages that it imports only.
Both read the same ``model.pt`` and ``vocab.pkl``. A JSON line for each comparison: log-probabilities of
tokens and attachments given trees, totals and best trees of beams, and processor time a sentence of both.
``--full`` takes the shape of the published model (D 1024, 16 layers) instead of two small ones, with memory
and time of the import. Exit status 1 if numbers differ by more than they may.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import pickle
import re
import resource
import shutil
import sys
import tempfile
import time
import types
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pdtools.models import LoadedModel, load_checkpoint
from pdtools.models.released_pushdown import import_model
from pdtools.models.transformer.tape import StackState
from pdtools.search.families.attachment_beam import beam_search
from pdtools.search.options import SearchOptions

GIVEN_TREES, TOTALS = 1e-5, 1e-4  # nats, the most that numbers may differ by
SMALL = (
    {"vec_dim": 32, "encoder_n_layers": 2, "n_heads": 4},
    {"vec_dim": 64, "encoder_n_layers": 3, "n_heads": 8},
)
FULL = {"vec_dim": 1024, "encoder_n_layers": 16, "n_heads": 8}
DEPTHS = 50


class Theirs:
    """The authors' code in a temporary copy that runs on the CPU."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        for file in checkout.rglob("*.py"):
            copy = folder / file.relative_to(checkout)
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = re.sub(r'"cuda:\{\}"\.format\([^)]*\)', '"cpu"', file.read_text(encoding="utf-8"))
            copy.write_text(text.replace('"cuda:0"', '"cpu"'), encoding="utf-8")
        datasets: Any = types.ModuleType("datasets")
        datasets.Dataset = None
        sys.modules["datasets"] = datasets
        for name in ("matplotlib", "matplotlib.pyplot", "wandb", "plot"):
            sys.modules.setdefault(name, types.ModuleType(name))
        sys.path.insert(0, str(folder))
        with contextlib.redirect_stdout(io.StringIO()):
            import beam_search_util
            import pushdown_util
            import transformer_helpers
            import vocabulary
            from data_utils import text_helpers
        self.beams: Any = beam_search_util
        self.util: Any = pushdown_util
        self.create_lm: Any = transformer_helpers.create_lm
        self.vocabulary: Any = vocabulary
        self.tape: Any = text_helpers.compute_stack_tape

    def model(self, shape: dict[str, int], n_words: int, seed: int) -> Any:
        """A model with random weights."""
        torch.manual_seed(seed)
        layers = shape["encoder_n_layers"]
        recursive = {
            "rec_layers": list(range(layers)),
            "stack_pred_layer": layers,
            "attachment_decisions": True,
            "compose_keys_and_stack_info": True,
            "stack_type_vocab": DEPTHS,
        }
        with contextlib.redirect_stdout(io.StringIO()):
            lm = self.create_lm(
                {}, n_words, **shape, use_stack_tape=True, recursive_layer_args=recursive
            ).eval()
        with torch.no_grad():
            lm.output_map.bias.normal_(std=0.5)  # 0 at first
        return lm


@torch.no_grad()
def given_trees(theirs: Theirs, lm: Any, ids: np.ndarray, attach: np.ndarray) -> tuple[Any, Any]:
    """Their log-probabilities of a sentence's tokens (then ``</s>``) and attachments."""
    labels = attach.tolist()
    tape = theirs.tape(labels, defaultdict(int), with_depth_info=True)
    inputs = torch.tensor(ids)[None]
    following = torch.tensor([*ids[1:], lm.encoder_eos])[None]
    lengths = torch.tensor([len(ids)])
    out = lm(inputs, following, lengths, torch.tensor(tape)[None])
    tokens = theirs.util.compute_per_token_logprob(lm, out["output"].data.transpose(0, 1), inputs, lengths)
    found = theirs.util.compute_stack_logprobs(lm, out["attachment_logits"][0], [labels[1:]], lengths)
    return tokens[0], np.array(found[0])


def random_attachments(n: int, rng: np.random.Generator, chain: bool) -> np.ndarray:
    """Attachments of a random tree of n tokens with end-of-sentence; a chain is as deep as can be."""
    stack, attach = StackState.start(1, n + 2), [0]
    for k in range(1, n + 1):
        legal = stack.legal()[0].nonzero()[:, 0].numpy()
        choice = (k - 1 if k > 1 else k) if chain else int(rng.choice(legal))
        attach.append(choice)
        stack.push(torch.tensor([choice]))
    return np.array([*attach, 0])


def compare_given_trees(
    theirs: Theirs, lm: Any, ours: LoadedModel, rng: np.random.Generator, sentences: int
) -> dict[str, float]:
    """Sentences of 1 to 40 tokens, and one with depths to 49."""
    worst = defaultdict(float)
    lengths = [*rng.integers(1, 41, sentences).tolist(), 49]
    for n in lengths:
        ids = np.array([lm.encoder_sos, *rng.integers(1, lm.n_input_tokens, n), ours.model.eos_id])
        ids[1:-1][ids[1:-1] == ours.model.eos_id] -= 1
        attach = random_attachments(n, rng, chain=n == 49)
        tokens, attachments = given_trees(theirs, lm, ids, attach)
        rows = []
        for own in (attach, np.array([*attach[:-1], n + 1])):  # <eos> has attached, and has not
            with torch.no_grad():
                batch = ours.model.pack([(ids.astype(np.int32), own.astype(np.int32))])
                rows.append(ours.model.forward_parts(batch))
        merged, before = (row.token_logprobs[0, 1:].numpy() for row in rows)
        worst["tokens"] = max(worst["tokens"], np.abs(merged[:-1] - tokens[:-2]).max(initial=0))
        end = tokens[-2:].sum() + attachments[-1]
        worst["ends"] = max(worst["ends"], abs(before[-1] - end))
        found = rows[0].attach_logprobs[0, 1:-1].numpy()
        worst["attachments"] = max(worst["attachments"], np.abs(found - attachments[:-1]).max(initial=0))
        worst["ends_merged_differ_by"] = max(worst["ends_merged_differ_by"], abs(merged[-1] - before[-1]))
    return {name: float(value) for name, value in worst.items()}


def compare_beams(
    theirs: Theirs, lm: Any, ours: LoadedModel, beam: int, lengths: list[int], rng: np.random.Generator
) -> dict[str, Any]:
    """Totals and best trees of a beam, and processor time of both."""
    worst, same, spent = 0.0, 0, defaultdict(float)
    search = theirs.beams.BeamSearchDepthBased(beam)
    for n in lengths:
        ids = np.array([lm.encoder_sos, *rng.integers(1, lm.n_input_tokens, n), ours.model.eos_id])
        ids[1:-1][ids[1:-1] == ours.model.eos_id] -= 1
        begun = time.process_time()
        with torch.no_grad():
            found = search(lm, lambda sentence: sentence, ids.tolist(), 0)
        spent["theirs"] += time.process_time() - begun
        begun = time.process_time()
        (result,) = beam_search(ours.model, [ids.astype(np.int32)], search=SearchOptions(beam=beam))
        spent["ours"] += time.process_time() - begun
        worst = max(worst, abs(float(np.logaddexp.reduce([score for score, *_ in found])) - result.marginal))
        best = [0, *found[0][1]]
        same += best[: n + 2] == result.derivations[0][1].tolist()
    of_each = {name: seconds / len(lengths) for name, seconds in spent.items()}
    return {"beam": beam, "totals": worst, "same_best": f"{same} of {len(lengths)}", "cpu_s": of_each}


def toy_tokenizer(folder: Path, n_words: int) -> list[str]:
    """Write a byte-level BPE like GPT-2's, and return tokens for a vocabulary."""
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(
        ["the cat sat on the mat .", "dogs bark ."], vocab_size=270, show_progress=False
    )
    trained.save(str(folder / "tokenizer.json"))
    tokens = [token for token, _ in sorted(trained.get_vocab().items())]
    if n_words <= len(tokens):
        return tokens[:n_words]
    description = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    more = [f"Ġw{number}" for number in range(n_words - len(tokens))]
    description["model"]["vocab"] |= {token: len(tokens) + place for place, token in enumerate(more)}
    (folder / "tokenizer.json").write_text(json.dumps(description), encoding="utf-8")
    return [*tokens, *more]


def peak_gib() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--full", action="store_true", help="the shape of the published model")
    parser.add_argument("--beams", default="1,10,300")
    parser.add_argument("--sentences", type=int, default=60, help="of which trees are given")
    parser.add_argument("--words", type=int, help="words of the vocabulary (default 100; full: 33000)")
    parser.add_argument(
        "--tokens", type=int, default=20, help="of the sentences that are searched, in full shape"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    bad = False
    with tempfile.TemporaryDirectory() as folder:
        theirs = Theirs(given.checkout, Path(folder, "theirs"))
        for seed, shape in enumerate([FULL] if given.full else SMALL):
            source = Path(folder, f"source-{seed}")
            source.mkdir()
            n_words = given.words or (33_000 if given.full else 100)
            words = toy_tokenizer(source, n_words - 2)
            vocabulary = theirs.vocabulary.WordVocabulary([[*words, "<eos>"]], split_punctuation=False)
            with open(source / "vocab.pkl", "wb") as stream:
                pickle.dump(vocabulary, stream)
            lm = theirs.model(shape, len(vocabulary), seed)
            torch.save(lm.state_dict(), source / "model.pt")
            held, begun = peak_gib(), time.process_time()
            import_model(source, Path(folder, "ours"), overwrite=True)
            report = {"shape": shape, "parameters": sum(p.numel() for p in lm.parameters())}
            report |= {"import_cpu_s": time.process_time() - begun, "peak_gib": [held, peak_gib()]}
            report["files_gib"] = (source / "model.pt").stat().st_size / 2**30
            print(json.dumps(report), flush=True)
            ours = load_checkpoint(Path(folder, "ours"))
            shutil.rmtree(Path(folder, "ours"))
            rng = np.random.default_rng(seed)
            worst = compare_given_trees(theirs, lm, ours, rng, given.sentences)
            print(json.dumps({"given_trees": worst}), flush=True)
            bad |= max(worst["tokens"], worst["ends"], worst["attachments"]) > GIVEN_TREES
            for beam in map(int, given.beams.split(",")):
                many = (
                    [given.tokens]
                    if given.full
                    else [1, 2, 5, 9, 12]
                    if beam > 100
                    else [1, 3, 8, 14, 20, 30]
                )
                found = compare_beams(theirs, lm, ours, beam, many, rng)
                print(json.dumps({**found, "peak_gib": peak_gib()}), flush=True)
                bad |= found["totals"] > TOTALS
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
