"""Decisions made again from a snapshot."""
