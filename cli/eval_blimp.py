def eval_blimp() -> None:
    """Not built yet."""
