"""Why a job waits, and when it is likely to start."""
