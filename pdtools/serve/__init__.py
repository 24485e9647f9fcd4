"""``pdtools serve``: a page that answers what is typed, drawn by the scripts of ``view``."""
