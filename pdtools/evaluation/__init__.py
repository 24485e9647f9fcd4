"""Scores: bracketing (EVALB), perplexity, BLiMP, syntactic generalization, and the comparison of runs.

Each evaluation is a function from data and a model to :class:`Results`, which :func:`write_results` writes.
"""

from pdtools.evaluation.blimp.evaluate import evaluate_blimp
from pdtools.evaluation.blimp.pairs import PairFiles
from pdtools.evaluation.comparison.compare import compare
from pdtools.evaluation.external.scorer import ExternalScorer
from pdtools.evaluation.external.sentence_files import item_strings
from pdtools.evaluation.parsing.evaluate import evaluate_parse
from pdtools.evaluation.perplexity.evaluate import evaluate_perplexity
from pdtools.evaluation.results import Results, read_results, write_results
from pdtools.evaluation.sg.evaluate import evaluate_sg
from pdtools.evaluation.sg.suites import SuiteFiles

__all__ = [
    "ExternalScorer",
    "PairFiles",
    "Results",
    "SuiteFiles",
    "compare",
    "evaluate_blimp",
    "evaluate_parse",
    "evaluate_perplexity",
    "evaluate_sg",
    "item_strings",
    "read_results",
    "write_results",
]
