"""Formal languages: Dyck, context-free, and transduction tasks."""
