"""Choosing victims."""
