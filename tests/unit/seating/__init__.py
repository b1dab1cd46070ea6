"""The scheduler and the job controller together, on an API server in memory, in virtual time."""
