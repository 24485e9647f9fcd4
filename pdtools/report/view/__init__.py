"""Pages of ``pdtools view``: one HTML file that needs no network, and the same figures for papers."""
