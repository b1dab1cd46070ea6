"""The embedded control plane and the program `pyroclast`."""
