"""Sessions: one pass of decisions over a snapshot, with statements, extension points and the configuration file."""
