"""External scores, and the sentences for external models to score."""
