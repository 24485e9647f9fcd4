def sample() -> None:
    """Not built yet."""
