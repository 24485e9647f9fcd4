"""Kept checkpoints as revisions (``export --revisions``), and their scores as learning curves (``view``)."""

from __future__ import annotations
