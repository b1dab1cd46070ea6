"""Admission of a decoded request before it is stored: the chain of steps, webhooks and limits."""
