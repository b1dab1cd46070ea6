"""Events of Kubernetes: correlated and written in the background."""
