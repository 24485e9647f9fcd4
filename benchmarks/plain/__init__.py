"""Plain formulations, as the papers print them, to measure against; pdtools never imports them."""
