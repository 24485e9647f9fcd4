"""Scores: bracketing (EVALB), perplexity, BLiMP, syntactic generalization, and the comparison of two runs.

Each evaluation is a function from data and a model to :class:`Results`, which :func:`write_results` writes.
"""

from pdtools.evaluation.blimp.evaluate import evaluate_blimp, evaluate_recorded_blimp
from pdtools.evaluation.blimp.pairs import PairFiles, read_pairs
from pdtools.evaluation.comparison.compare import compare_runs
from pdtools.evaluation.parsing.evalb import BracketScore, SentenceRow, compare_sentence
from pdtools.evaluation.parsing.evaluate import evaluate_parse
from pdtools.evaluation.parsing.prm import COMMON, Parameters, read_parameters
from pdtools.evaluation.perplexity.evaluate import evaluate_perplexity, evaluate_string_perplexity
from pdtools.evaluation.recorded.scorer import RecordedScorer
from pdtools.evaluation.recorded.sentence_files import blimp_sentences, sg_sentences, write_sentences
from pdtools.evaluation.results import Results, read_results, write_results
from pdtools.evaluation.sg.evaluate import evaluate_sg
from pdtools.evaluation.sg.formula import Formula, FormulaError
from pdtools.evaluation.sg.many_runs import aggregate_items
from pdtools.evaluation.sg.suites import SuiteFiles, read_suites

__all__ = [
    "COMMON",
    "BracketScore",
    "Formula",
    "FormulaError",
    "PairFiles",
    "Parameters",
    "RecordedScorer",
    "Results",
    "SentenceRow",
    "SuiteFiles",
    "aggregate_items",
    "blimp_sentences",
    "compare_runs",
    "compare_sentence",
    "evaluate_blimp",
    "evaluate_parse",
    "evaluate_perplexity",
    "evaluate_recorded_blimp",
    "evaluate_sg",
    "evaluate_string_perplexity",
    "read_pairs",
    "read_parameters",
    "read_results",
    "read_suites",
    "sg_sentences",
    "write_results",
    "write_sentences",
]
