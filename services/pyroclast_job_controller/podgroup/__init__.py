"""The controller of PodGroups of pods that belong to no Job of ours."""
