"""The admission webhooks."""
