"""The controller of Jobs: what it remembers, and the writes that it does."""
