"""Repeating the decisions of a saved `/debug/snapshot`: writing the state that a session begins with, and reading it again."""
