"""Eviction: the choice of victims, which all evicting actions share."""
