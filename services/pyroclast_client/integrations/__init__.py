"""Plugins for packages of others, one module for each. The package, or the user, loads it by name; the client never does."""
