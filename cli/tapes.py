def tapes() -> None:
    """Not built yet."""
