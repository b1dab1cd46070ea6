"""The embedded control plane and the command pyroclast."""
