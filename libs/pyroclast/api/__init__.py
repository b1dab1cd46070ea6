"""The resource model: one module for each kind, enums, well-known keys, and the generation of CRDs."""
