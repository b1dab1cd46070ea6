"""Plugins for other packages, one module for each. The other package or the user imports the module; the client never does."""
