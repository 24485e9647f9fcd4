"""``pdtools inspect``: what a model does while it reads a string."""

from __future__ import annotations

from functools import partial

from pdtools.errors import PdtoolsError
from pdtools.jobs.devices import pick_device
from pdtools.search.options import Pll

from .console import print_json, warn
from .options import BeamOptions, ModelName, Positive, ResultOptions, Threads, command, one_tree
from .running import check_picture


@command()
def inspect(
    text: str,
    model: ModelName,
    beam: BeamOptions,
    options: ResultOptions,
    output: str | None = None,
    hypotheses: Positive = 3,
    gold: str | None = None,
    pll: Pll | None = None,
    device: str = "cpu",
    threads: Threads = 0,
) -> None:
    """Show what a model does while it reads a sentence.

    \b
    Example:
      pdtools inspect "The dog barks." --model english
          1 The                                                   3.89 bits      1 kept
            attaches  shift 100.0%
            tape      0 0
             100.00%  The
          2 dog                                                   9.51 bits      2 kept
            attaches  1 The 75.7%, shift 24.3%
            tape      0 1 1
              75.69%  [The dog]
              24.31%  The ‖ dog
      pdtools inspect "a b b a a" --model runs/rs -o maps.svg
      pdtools inspect "The dog barks." --model runs/pushdown --json > trace.json

    Models with trees: after each token, its surprisal and the best hypotheses, each with its share of the
    beam. Models with stacks: what they do with them. All other models: surprisals.

    Arguments:
        text (TEXT): A sentence; for stack models, words separated by spaces.

    Model:
        pll: Masked models: what is hidden with a token (default: the rest of its word).

    Search:
        search_settings (--search KEY=N): Action models: word_beam, fast_track. Repeatable.

    Output:
        output (-o FILE): A picture of the stacks: .svg, .png or .pdf.

    Options:
        hypotheses: Number of hypotheses to show for each beam.
        gold (TREE): The sentence's tree: what agrees with it is marked.
    """
    search = beam.search_of_one
    if output:
        check_picture(output, overwrite=options.overwrite, inputs=[model])

    from pdtools.inspection.recurrent import StackRunView
    from pdtools.inspection.tracing import stack_view, trace
    from pdtools.models import load_checkpoint
    from pdtools.report.stacks import draw_run, draw_stacks, print_run, print_stacks
    from pdtools.report.traces import print_trace
    from pdtools.search.model import check_pretrained_options, is_guest, load_model

    device = pick_device(device, threads)
    check_pretrained_options(model, True, pll)
    loaded = None if is_guest(model) else load_checkpoint(model, device)
    view = None if loaded is None else stack_view(loaded, text)
    if view is None:
        if output:
            raise PdtoolsError(f"-o draws stacks, which {model} does not have: leave it out")
        traced = trace(
            load_model(model, device=device, pll=pll) if loaded is None else loaded,
            text,
            search,
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
