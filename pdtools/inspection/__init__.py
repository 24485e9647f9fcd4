"""What a model does while it reads: its stacks, position by position, and how that changes in training."""
