"""Objects as they are kept: the store with its history, the journal on disk, the registry of kinds."""
