"""Scores that others computed, and the sentences for them to score."""
