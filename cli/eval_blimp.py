"""``pdtools eval-blimp``: minimal pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from .evaluating import evaluate_strings, pick_source
from .options import Positive, StringOptions, command

if TYPE_CHECKING:
    from pdtools.evaluation.blimp.pairs import PairItems


@command("Score minimal pairs (BLiMP).", without=("stride",))
def eval_blimp(
    context: typer.Context,
    data: str,
    asked: StringOptions,
    limit: Positive | None = None,
) -> None:
    """Score minimal pairs: is the good sentence strictly more probable than the bad one?

    Accuracies are given by paradigm, phenomenon and field, and overall (the mean over paradigms). A tie is
    not correct. Pairs with a sentence that the model cannot score are excluded and counted.

    Pairs of your own need only sentence_good and sentence_bad: as keys of every line (.jsonl), or as columns
    that the first line names (.tsv). Their paradigm is the name of the file.

    For a model outside pdtools, --write-sentences writes every sentence (paradigm, item, string, text; the
    good one first). --surprisals reads the model's surprisals of these sentences, and sums all tokens of
    each, including a row for its end. Columns, --nats, --on-error and alignment are as in pdtools eval-sg.
    --limit has to be the same both times.

    --beam auto scores every pair with a narrow search first. If wider searches could change the outcome, it
    widens the search, up to a beam of 300 (items.parquet has the beam used). A few outcomes may differ from
    those with beam 300 throughout.

    With --context, the same sentences (one per line of FILE) are read before both members of every pair. If
    not all fit, the last ones are read. This works for models of windows (pdtools tapes --layout window) and
    Hugging Face models.

    \b
    Example:
      pdtools eval-blimp BLiMP.zip --model runs/pushdown -o results/blimp --beam auto
      pdtools eval-blimp my-pairs.tsv --model runs/pushdown -o results/my-pairs
      pdtools eval-blimp BLiMP.zip --write-sentences sentences.txt
      pdtools eval-blimp BLiMP.zip --surprisals surprisals.tsv -o results/other

    Arguments:
        data (DATA): A folder of .jsonl or .tsv files, one such file, or BLiMP.zip.

    Input:
        limit: Only the first pairs of each paradigm, at most this many.
    """
    pick_source(context, asked)

    def read() -> PairItems:
        from pdtools.evaluation.blimp.pairs import PairFiles, PairItems

        return PairItems(PairFiles(data, limit))

    evaluate_strings(read, {"data": data}, asked)
