"""The controller of HyperJobs, which are groups of Jobs in several domains."""
