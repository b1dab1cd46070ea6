"""The commands that the original does not have: what waits, what runs, and why."""
