"""Labels and numbers that models give to prompts, against those of the data."""
