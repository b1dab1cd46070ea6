"""What the board follows at the API server, as small records and rows."""
