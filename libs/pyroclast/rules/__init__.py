"""Defaults and validation of every kind, pure."""
