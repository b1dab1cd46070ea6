"""The versions of the schema, one after the other."""
