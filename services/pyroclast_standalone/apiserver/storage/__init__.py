"""Storage of objects: the store with its history, the journal on disk, and the registry of kinds."""
