"""``pdtools inspect``: what a model does while it reads a string."""

from __future__ import annotations

from functools import partial

from pdtools.errors import PdtoolsError
from pdtools.jobs.devices import pick_device

from .console import print_json, warn
from .options import BeamOptions, ModelName, Positive, ResultOptions, Threads, command, one_tree
from .running import check_picture


@command(without=("quiet",))
def inspect(
    text: str,
    model: ModelName,
    beam: BeamOptions,
    options: ResultOptions,
    output: str | None = None,
    hypotheses: Positive = 3,
    gold: str | None = None,
    device: str = "cpu",
    threads: Threads = 0,
) -> None:
    """Show what a model does while it reads a sentence.

    Pushdown LMs: for every token, its surprisal, what it attaches to (over the whole beam), the tape of the
    best hypothesis, and the best hypotheses. Each hypothesis is shown as the constituents on its stack, with
    its share of the beam. Action models: their hypotheses as brackets. Models trained with TreeReg: their
    greedy tree and the scores of its splits. All other models: surprisals. --json prints all of it, and
    attention with and without the depth term (docs/reference/files/trace.md).

    Stack attention: for each layer and position, the probability that each token is on top of the stack (the
    attention map; darker is higher). Then the probabilities of push, pop and no-op, the most probable of
    them, and the stack that these actions would make. A model of a task reads x and answers; its answer is
    shown beside the tokens.

    Recurrent models with a stack: after each token, its surprisal and the shares of actions. (A masked model
    of a task reads x, and its answer is shown instead of surprisals.) For a nondeterministic stack, also what
    is on top, and the highest-weight run of its automaton, indented by the stack's height.

    \b
    Example:
      pdtools inspect "The horse raced past the barn fell ." --model runs/pushdown --hypotheses 5
      pdtools inspect "a b b a a" --model runs/rs -o maps.svg
      pdtools inspect "0 1 1 # 1 1 0" --model runs/rns

    Arguments:
        text (TEXT): A sentence; for stack models, words separated by spaces.

    Output:
        output (-o FILE): A picture of the stacks: .svg, .png or .pdf.

    Options:
        hypotheses: Number of hypotheses to show for each beam.
        gold (TREE): The sentence's tree: what agrees with it is marked.
    """
    if output:
        check_picture(output, overwrite=options.overwrite, inputs=[model])

    from pdtools.inspection.recurrent import StackRunView
    from pdtools.inspection.tracing import stack_view, trace
    from pdtools.models import load_checkpoint
    from pdtools.report.stacks import draw_run, draw_stacks, print_run, print_stacks
    from pdtools.report.traces import print_trace
    from pdtools.search.model import is_huggingface

    device = pick_device(device, threads)
    loaded = None if is_huggingface(model) else load_checkpoint(model, device)
    view = None if loaded is None else stack_view(loaded, text)
    if view is None:
        if output:
            raise PdtoolsError(f"-o draws stacks, which {model} does not have: leave it out")
        traced = trace(
            model if loaded is None else loaded,
            text,
            beam.search,
            hypotheses=hypotheses,
            attention=options.as_json,
            gold=None if gold is None else one_tree(gold),
            device=device,
        )
        document, show = traced.to_json(), partial(print_trace, traced)
        warn(traced.model)
    else:
        if gold is not None:
            raise PdtoolsError(f"--gold is for models without stacks, which {model} has")
        assert loaded is not None
        warn(loaded.described)
        document = view.as_json()
        if isinstance(view, StackRunView):
            draw, show = partial(draw_run, view=view), partial(print_run, view)
        else:
            draw, show = partial(draw_stacks, inspection=view), partial(print_stacks, view)
        if output:
            draw(output)
    if options.as_json:
        print_json(document)
    elif not output:
        show()
