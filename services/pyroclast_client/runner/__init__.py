"""The runner inside a pod. Its source is sent with the Job, uses only the standard library, and runs on Python 3.9 or newer."""
