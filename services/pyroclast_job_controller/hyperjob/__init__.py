"""HyperJobs: Jobs that belong together, spread over domains."""
