"""Requests to the API server: connections, calls that are repeated where that is safe, pages, batches."""
