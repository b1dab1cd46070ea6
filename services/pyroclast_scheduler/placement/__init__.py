"""Placement: arrays, masks and gang placement, pure."""
