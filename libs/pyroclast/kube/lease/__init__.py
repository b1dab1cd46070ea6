"""Leases: leader election and shards of work."""
