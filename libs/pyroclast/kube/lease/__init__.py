"""Leases: leader election and shards."""
