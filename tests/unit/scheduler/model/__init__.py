"""The columns and records of the scheduler."""
