"""Options with the panel of a command's help that they belong to; otherwise as ``typer.Option``."""

from __future__ import annotations

from functools import partial

import typer

input_option = partial(typer.Option, rich_help_panel="Input")
model_option = partial(typer.Option, rich_help_panel="Model")
search_option = partial(typer.Option, rich_help_panel="Search")
output_option = partial(typer.Option, rich_help_panel="Output")
parallel_option = partial(typer.Option, rich_help_panel="Parallel")
