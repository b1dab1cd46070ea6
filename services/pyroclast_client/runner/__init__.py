"""The runner inside a pod: source code that is sent with the Job, uses only the standard library, and needs Python 3.9."""
