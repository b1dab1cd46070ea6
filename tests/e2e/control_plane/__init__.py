"""The control planes that the tests run on, and simulated nodes."""
