"""The resource model: one module per kind, enums, well-known keys, CRD generation."""
