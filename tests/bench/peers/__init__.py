"""Pyroclast beside others: the same load on the same control plane, in turn."""
