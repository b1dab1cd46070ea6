"""Which nodes pods go to, what a Job waits for, and schedulers beside each other."""
