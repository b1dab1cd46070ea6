"""Deciding a `/debug/snapshot` again: the whole state that a session begins with, written down and taken up."""
