"""The Python client, and tools of others that use it."""
