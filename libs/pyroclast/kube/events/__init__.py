"""Events of Kubernetes, which are correlated and written in the background."""
