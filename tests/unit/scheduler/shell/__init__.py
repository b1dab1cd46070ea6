"""Reading from and writing to the API server."""
