"""The queries of the database, and the HTTP API that serves them to authorised users."""
