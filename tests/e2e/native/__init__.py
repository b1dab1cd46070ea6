"""Gangs that the PodGroups of Kubernetes itself describe."""
