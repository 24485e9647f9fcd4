def eval_parse() -> None:
    """Not built yet."""
