"""Models that write the tree into the string: PLM, PLM-mask and Transformer Grammars."""
