"""The objects that the board watches at the API server, as small records and rows."""
