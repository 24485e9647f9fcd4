"""Search over the dependency graphs that a model makes of strings."""
