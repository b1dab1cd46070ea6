"""Decides which nodes each of several schedulers may use."""
