def compare() -> None:
    """Not built yet."""
