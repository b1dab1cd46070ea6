"""The controllers inside the server: garbage collection, namespaces, claims, CRDs, quotas, events."""
