"""The command line of Pyroclast: `vcctl`, the short programs such as `vsub`, and the kubectl plugin `kubectl vc`."""
