def eval_ppl() -> None:
    """Not built yet."""
