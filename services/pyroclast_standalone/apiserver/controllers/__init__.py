"""What the server does by itself: garbage collection, namespaces, claims, CRDs, quotas, events."""
