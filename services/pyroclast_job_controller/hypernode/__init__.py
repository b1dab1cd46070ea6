"""HyperNodes: their status, and where they are discovered."""
