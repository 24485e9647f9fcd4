def eval_sg() -> None:
    """Not built yet."""
