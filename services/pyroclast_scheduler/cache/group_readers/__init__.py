"""Readers make groups from the objects of each API. No code outside of this package reads these objects."""
