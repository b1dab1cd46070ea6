"""A small shell in virtual time, which computes the output, duration and exit code of a command without running it."""
