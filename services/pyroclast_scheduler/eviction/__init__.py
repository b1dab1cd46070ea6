"""Victims: which pods may make room for others; shared by the actions that evict."""
