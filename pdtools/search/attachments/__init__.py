"""Beam search over the attachments of strings, and what any search keeps and draws."""
