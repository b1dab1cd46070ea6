"""The scheduler's memory of the cluster."""
