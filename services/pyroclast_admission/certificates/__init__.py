"""Certificates of the webhook server: issued, kept, renewed and given out by the service itself, or read from files."""
