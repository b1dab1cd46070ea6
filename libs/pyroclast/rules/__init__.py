"""Defaulting and validation of every kind, pure."""
