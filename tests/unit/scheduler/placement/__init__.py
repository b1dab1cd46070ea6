"""Choosing nodes."""
