"""The commands that Volcano does not have: what waits, what runs, and why."""
