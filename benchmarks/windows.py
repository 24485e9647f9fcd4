"""A training step (forward and backward) of a Pushdown LM on windows beside one of the base transformer.

    python benchmarks/windows.py [--device cuda --dtype bf16]

The models are as in ``train_step.py``. Windows hold whole sentences of the bundled treebank, with their
attachments and random tokens, as many as fit; the rest of a window is padding. The base transformer
predicts the ROOT after each sentence, and so reads one more position a window; in the Pushdown LM sentences
end by attachments.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from measure import EOS, ROOT, Figure, Options, main, treebank_attachments
from numpy.typing import NDArray
from train_step import CPU, GPU, compared, model_of, own_loss, step

from pdtools.trees import sentence_layout

# Positions of a window, and how many windows a batch has on a CPU: as many positions in each.
WINDOWS = {256: 8, 512: 4}
TIME_BAR, MEMORY_BAR = 1.2, 1.1

Row = tuple[NDArray[np.int32], NDArray[np.int32]]


def treebank_windows(windows: int, positions: int, vocab_size: int) -> list[Row]:
    """Tokens and attachments of windows: the treebank's sentences in order, each with its ROOT."""
    rng = np.random.default_rng(0)
    found: list[Row] = []
    tokens, attach = np.zeros(0, np.int32), np.zeros(0, np.int32)
    for words in itertools.cycle(treebank_attachments()):
        own = sentence_layout(words)[:-1]  # without end-of-sentence
        own[-1] = 0
        if len(own) > positions:
            continue
        if len(tokens) + len(own) > positions:
            found.append((tokens, attach))
            tokens, attach = np.zeros(0, np.int32), np.zeros(0, np.int32)
            if len(found) == windows:
                break
        drawn = rng.integers(EOS + 1, vocab_size, len(own) - 1)
        attach = np.concatenate([attach, own + len(attach)]).astype(np.int32)
        tokens = np.concatenate([tokens, [ROOT], drawn]).astype(np.int32)
    return found


def figures(options: Options) -> Iterator[Figure]:
    """Time and memory by the length of windows."""
    is_gpu = options.device.startswith("cuda")
    setting = GPU if is_gpu else CPU
    for n, windows in WINDOWS.items():
        trunk = {**setting.trunk, "layout": "window", "max_length": n + 1}
        rows = treebank_windows(setting.sentences if is_gpu else windows, n, trunk["vocab_size"])
        runs = {}
        for label, name in (("base", "transformer"), ("pushdown", "pushdown")):
            model = model_of(name, options, trunk)
            runs[label] = step(model, model.pack(rows).to(options.device), own_loss)
        settings = {
            "windows": len(rows),
            "sentences": int(sum((tokens == ROOT).sum() for tokens, _ in rows)),
            "positions_per_sentence": n,
            "padding": 1 - sum(len(tokens) for tokens, _ in rows) / (n * len(rows)),
            **trunk,
            **options.settings,
        }
        bars = {"time": TIME_BAR, "peak memory": MEMORY_BAR}
        yield from compared(runs, bars, settings, options, label=f"windows, n {n}")


if __name__ == "__main__":
    main(__doc__, figures, repeats=7)
