def parse() -> None:
    """Not built yet."""
