"""Pure rules for the objects of each kind: their defaults and their validation."""
