"""The rows that follow from the objects of the API server. Pure."""
