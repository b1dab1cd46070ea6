"""What stands between a decoded request and the store: the chain of steps, webhooks, limits."""
