"""Models that read a dependency graph that they make as they go."""
