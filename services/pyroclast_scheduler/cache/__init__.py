"""The cache: the present state of the cluster, updated by watch events. A snapshot is a copy for one session."""
