"""The run of an evaluation by its command: checked, divided into chunks, delivered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pdtools.files import STDIO

from .console import print_json, warn
from .options import ResultOptions
from .outputs import check_form
from .running import Output

if TYPE_CHECKING:
    from pdtools.evaluation.results import Results
    from pdtools.files import Rejects


@dataclass(frozen=True, kw_only=True)
class Evaluating(Output):
    """One run of an evaluation.

    :meth:`begin` it, work within :meth:`chunks` or :meth:`model`, and there :meth:`deliver` its results.

    Attributes:
        output: the folder of results; None: they are only printed.
        inputs: the inputs, by their roles in the provenance.
        latex: whether tables are for LaTeX.
    """

    output: str | None
    inputs: dict[str, str]
    latex: bool

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
        """Refuse, before the work, outputs that could not be written after it.

        Args:
            inputs: None for an input that is not given.
            also: further inputs that the provenance does not name.
            output, options, beside, latex: see the classes.

        Raises:
            Done: with --resume, if the output exists.
            PdtoolsError, typer.BadParameter: see :meth:`Output.check`, :func:`check_form`, and
                :func:`pdtools.evaluation.record.evaluations`.
        """
        from pdtools.evaluation.record import evaluations

        evaluations()
        check_form(as_json=options.as_json, latex=latex)
        others = [path for path in beside if path is not None]
        read = [*inputs.values(), *also]
        checked = Output.check(output or STDIO, options, folder=True, inputs=read, beside=others)
        given = {role: path for role, path in inputs.items() if path is not None}
        return cls(**vars(checked), output=output, inputs=given, latex=latex)

    def deliver(
        self,
        results: Results,
        *,
        show: Callable[[Results], None] | None = None,
        inputs: Mapping[str, str] | None = None,
        rejects: Rejects | None = None,
        **shown: Any,
    ) -> None:
        """Write the results, if a folder is given, and print them.

        Args:
            show: prints them; None: the printer that the evaluation's record names.
            inputs: the inputs, if they differ from those given to :meth:`begin`.
            rejects: the excluded inputs.
            shown: further arguments of the record's printer.
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

    assert results.evaluation is not None
    module, _, name = results.evaluation.printer.partition(":")
    return partial(getattr(import_module(module), name), **shown)
