"""``pdtools serve``: a page on one's own machine that answers what is typed, drawn by the scripts of ``view``."""
