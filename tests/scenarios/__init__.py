"""Scheduling scenarios: clusters as tables, one or more cycles of the real decision code, and what must come out."""
