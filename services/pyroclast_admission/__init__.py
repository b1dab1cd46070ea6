"""The admission service: webhooks that set defaults in objects and validate objects before the API server stores them."""
