"""Moving a cluster from Volcano to Pyroclast: what is installed, and what would change."""
