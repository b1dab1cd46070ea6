"""The only code that talks to an API server: client, informer, work queue, leases, events."""
