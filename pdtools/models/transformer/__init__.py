"""Transformers: the base model, pushdown layers, stack attention; pretrained weights."""
