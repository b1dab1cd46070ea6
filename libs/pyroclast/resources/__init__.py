"""Quantities and resource vectors, pure."""
