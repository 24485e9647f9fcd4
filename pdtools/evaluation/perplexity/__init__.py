"""Perplexity: of sentences with and without their trees, of streams, of masked models."""
