"""Moves a cluster from Volcano to Pyroclast: lists what is installed and what would change."""
