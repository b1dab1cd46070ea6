"""Repeats the decisions of a saved `/debug/snapshot`: writes the input of a session, and reads it again."""
