"""Commands for formal languages: their strings, and how well models know them."""
