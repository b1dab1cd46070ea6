"""What Volcano's own programs and CustomResourceDefinitions write and know, for tests of moving from it and back."""
