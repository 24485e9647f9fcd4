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

    \b
    Example:
      pdtools eval-blimp sample/blimp/mini_npi_scope.jsonl --model demo -o results/npi
          BLiMP (percent)     accuracy  items  scored  ties
          overall               100.00     60      60     0
          mean of items         100.00      -       -     -
          overall, per token    100.00      -       -     -
          mean margin: +10.324 bits
      pdtools eval-blimp BLiMP.zip --model runs/pushdown -o results/blimp --beam auto
      pdtools eval-blimp BLiMP.zip --write-sentences sentences.txt
      pdtools eval-blimp BLiMP.zip --surprisals surprisals.tsv -o results/other

    Pairs of your own need only sentence_good and sentence_bad: as keys of every line (.jsonl), or as columns
    that the first line names (.tsv). The overall accuracy is the mean over paradigms, of which each file is
    one. A tie is not correct. Pairs with a sentence that the model cannot score are excluded and counted.

    With the last two calls, a model outside pdtools computes the surprisals.

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
