"""Inspection of models while they read: their stacks by position, and how these change in training."""
