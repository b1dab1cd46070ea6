"""Memory settings of pods that share a node with other pods."""
