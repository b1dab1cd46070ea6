"""A small shell in virtual time. It computes the output, duration and exit code of a container's command without running it."""
