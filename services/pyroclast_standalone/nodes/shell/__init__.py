"""A small shell in virtual time: what a container's command prints, how long it takes and how it ends, without running it."""
