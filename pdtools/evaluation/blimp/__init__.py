"""BLiMP: minimal pairs (Warstadt et al. 2020)."""
