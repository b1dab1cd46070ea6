"""The command lines: `pyroclast`, `vcctl`, and kubectl and other clients that nobody here wrote."""
