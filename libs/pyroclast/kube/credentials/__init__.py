"""The address of the API server, the client's credentials, and the trusted CAs."""
