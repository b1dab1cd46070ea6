"""Readers: each makes the scheduler's groups from the objects of one API. Nothing outside this package looks at these objects."""
