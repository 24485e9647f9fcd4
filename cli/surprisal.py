def surprisal() -> None:
    """Not built yet."""
