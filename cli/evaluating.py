"""An evaluation as its command runs it: checked, divided into pieces, delivered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pdtools.files import STDIO
from pdtools.search.options import AUTO

from .console import bar, message, print_json, warn
from .options import PiecesOptions, ResultOptions
from .outputs import check_form, check_output_or_done
from .running import kept_pieces, make_plan, piecewise_comparer, piecewise_scorer

if TYPE_CHECKING:
    from pdtools.evaluation.results import Results
    from pdtools.files import Rejects
    from pdtools.jobs import JobFolder, Plan
    from pdtools.search import Scorer
    from pdtools.search.in_pieces import ModelSettings
    from pdtools.search.widening import Comparer


@dataclass(frozen=True, kw_only=True)
class Evaluating:
    """One run of an evaluation: :meth:`begin` it, work within :meth:`pieces` or :meth:`scorer`, and there
    :meth:`deliver` its results.

    Attributes:
        output: the folder of results; None: they are only printed.
        options: what becomes of the results.
        plan: who does the work.
        inputs: what is read, by its role in the provenance.
        beside: other files that the command writes.
        latex: whether tables are for LaTeX.
    """

    output: str | None
    options: ResultOptions
    plan: Plan
    inputs: dict[str, str]
    beside: tuple[str, ...] = ()
    latex: bool = False

    @classmethod
    def begin(
        cls,
        output: str | None,
        options: ResultOptions,
        inputs: Mapping[str, str | None],
        *,
        also: Sequence[str | None] = (),
        beside: Sequence[str | None] = (),
        latex: bool = False,
    ) -> Evaluating:
        """Refuse, before the work, what could not be written after it.

        Args:
            inputs: None where an input is not given.
            also: what is read without being named in the provenance.
            output, options, beside, latex: see the class.

        Raises:
            Done: with --resume, if the output is there.
            PdtoolsError, typer.BadParameter: see :func:`check_output_or_done`, :func:`check_form`, and
                :func:`pdtools.evaluation.record.evaluations`.
        """
        from pdtools.evaluation.record import evaluations
        from pdtools.jobs import Plan

        evaluations()
        check_form(as_json=options.as_json, latex=latex)
        plan = make_plan(options) if isinstance(options, PiecesOptions) else Plan()
        others = tuple(path for path in beside if path is not None)
        check_output_or_done(
            output or STDIO,
            plan,
            folder=True,
            overwrite=options.overwrite,
            inputs=[*inputs.values(), *also],
            beside=others,
            quiet=options.quiet,
        )
        given = {role: path for role, path in inputs.items() if path is not None}
        return cls(output=output, options=options, plan=plan, inputs=given, beside=others, latex=latex)

    def pieces(self, work: str, **described: Any) -> AbstractContextManager[JobFolder | None]:
        """The folder in which finished pieces are kept until the results are delivered.

        Args:
            work: what a piece's result is; another name where its form has changed.
            described: all else that the results of pieces depend on.
        """
        return kept_pieces(self.output or STDIO, {"work": work, **described}, self.plan, **self._kept)

    def scorer(self, settings: ModelSettings) -> AbstractContextManager[Scorer]:
        """A model that scores sentences, in pieces that are kept."""
        return piecewise_scorer(self.output or STDIO, settings, self.plan, **self._kept)

    def scorer_or_comparer(self, settings: ModelSettings) -> AbstractContextManager[Scorer | Comparer]:
        """The same; of ``--beam auto`` a model that searches as far as comparisons need it."""
        if settings.search.beam == AUTO:
            return piecewise_comparer(self.output or STDIO, settings, self.plan, **self._kept)
        return self.scorer(settings)

    @property
    def _kept(self) -> dict[str, Any]:
        return {"beside": self.beside, "overwrite": self.options.overwrite, "quiet": self.options.quiet}

    def bar(
        self, unit: str, total: Callable[[], int | None] | None = None
    ) -> Callable[[Iterable[Any], int | None], Iterator[Any]]:
        """Progress over what ``unit`` says."""
        return bar(unit, quiet=self.options.quiet, total=total)

    def say(self, text: str) -> None:
        """A message, unless there are to be none."""
        message(text, quiet=self.options.quiet)

    def deliver(
        self,
        results: Results,
        *,
        show: Callable[[Results], None] | None = None,
        inputs: Mapping[str, str] | None = None,
        rejects: Rejects | None = None,
        **shown: Any,
    ) -> None:
        """Write the results, if they are wanted as a folder, and print them.

        Args:
            show: prints them; None: the printer that the evaluation's record names.
            inputs: what was read, if that is not what :meth:`begin` was told.
            rejects: what was left out.
            shown: what else the record's printer takes.
        """
        from pdtools.evaluation.results import write_results
        from pdtools.provenance import provenance
        from pdtools.report.tables import latex_tables

        made = provenance(self.inputs if inputs is None else dict(inputs))
        if self.output:
            overwrite = self.options.overwrite
            write_results(self.output, results, made, rejects=rejects, overwrite=overwrite)
        warn(results.settings)
        if self.options.as_json:
            print_json(results.document(made))
            return
        with latex_tables(self.latex):
            (show or _printer(results, shown))(results)


def _printer(results: Results, shown: Mapping[str, Any]) -> Callable[[Results], None]:
    """The function that the evaluation's record names to print results."""
    from importlib import import_module

    from pdtools.evaluation.record import evaluations

    module, _, name = evaluations()[results.settings["task"]].printer.partition(":")
    return partial(getattr(import_module(module), name), **shown)
