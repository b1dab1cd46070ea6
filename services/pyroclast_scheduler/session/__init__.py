"""A pass of decisions over a snapshot: session, statements, extension points and their rules, the configuration file."""
