"""Scoring of strings without a search, also by Hugging Face models; the tree of their prefixes."""
