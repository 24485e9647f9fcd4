def decode() -> None:
    """Not built yet."""
