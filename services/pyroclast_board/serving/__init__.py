"""The HTTP server: authentication, routes, and the streams of changes."""
