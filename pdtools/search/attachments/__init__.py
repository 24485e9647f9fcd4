"""Beam search over the attachments of strings, and the steps and draws of any search."""
