"""The commands that Volcano does not have: which Jobs wait, which run, and why."""
