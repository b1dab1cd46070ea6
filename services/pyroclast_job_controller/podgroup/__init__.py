"""The controller of PodGroups for pods that belong to no Job of Pyroclast."""
