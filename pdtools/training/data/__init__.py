"""Training data: sentences, streams and tasks, in batches."""
