"""The admission service: webhooks that default and check objects before they are stored."""
