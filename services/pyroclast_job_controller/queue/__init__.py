"""The controller of Queues."""
