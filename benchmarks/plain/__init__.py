"""What the papers print, written plainly, to measure against; pdtools never imports it."""
