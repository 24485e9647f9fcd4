"""Strings that are scored without a search, also of Hugging Face models; the tree of their prefixes."""
