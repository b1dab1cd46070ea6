"""All pods of a gang or none: under faults, with places before pods, and for PodGroups of Kubernetes itself."""
