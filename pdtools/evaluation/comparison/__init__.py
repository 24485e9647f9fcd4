"""Two results or more side by side: differences, intervals, and whether they may be compared at all."""
