"""Certificates of the webhook server. The service issues, stores, renews and publishes them itself, or reads them from files."""
