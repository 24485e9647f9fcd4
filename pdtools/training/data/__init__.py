"""What training reads: sentences, streams and tasks, in batches."""
