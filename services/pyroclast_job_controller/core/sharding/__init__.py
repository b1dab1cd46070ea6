"""Which nodes each of several schedulers may use."""
