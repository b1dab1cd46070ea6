"""Requests to the API server: connections, calls with safe retries, pages, batches."""
