"""What the controllers of this process decide, without any I/O; what decides about Jobs is `pyroclast.lifecycle`."""
