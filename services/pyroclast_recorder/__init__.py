"""The recorder: follows the API server and keeps history and accounting in a database. Nothing waits for it."""
