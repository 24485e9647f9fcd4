"""Labels and numbers that models give for prompts, compared to the data's."""
