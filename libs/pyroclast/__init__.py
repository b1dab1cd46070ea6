"""The shared library: API model, rules, lifecycle, resources, the Kubernetes client and the process shell."""
