"""The command line of Pyroclast: `vcctl`, its short companions, and the kubectl plugin `kubectl vc`."""
