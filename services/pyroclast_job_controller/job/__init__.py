"""The controller of Jobs: its memory of each Job, and its writes to the API server."""
