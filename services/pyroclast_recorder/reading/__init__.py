"""Questions to the database, and the HTTP API that answers them to those who may ask."""
