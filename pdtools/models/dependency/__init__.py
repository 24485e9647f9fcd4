"""Models that read a dependency graph as they make it."""
