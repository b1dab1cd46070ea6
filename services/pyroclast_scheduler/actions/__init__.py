"""Actions: what a scheduling session does, one module each."""
