"""Families of models: how each reads, scores and parses sentences."""
