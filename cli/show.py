def show() -> None:
    """Not built yet."""
