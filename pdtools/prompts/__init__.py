"""Classification and regression as prompts: tasks, their data, their rows in shards, their scores."""
