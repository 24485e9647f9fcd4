def train() -> None:
    """Not built yet."""
