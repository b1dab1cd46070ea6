"""The registry of the job plugins, built-in and installed."""
