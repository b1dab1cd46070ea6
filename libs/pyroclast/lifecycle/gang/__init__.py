"""The pods of a Job as one gang: the desired pods, their manifests, and their PodGroup."""
