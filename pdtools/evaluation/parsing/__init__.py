"""Bracketing scores by EVALB's rules."""
