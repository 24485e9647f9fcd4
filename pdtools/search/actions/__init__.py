"""Word-synchronous search over the actions that make strings, for models that write the tree into them."""
