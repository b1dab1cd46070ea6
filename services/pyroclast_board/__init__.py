"""The read-only web page over queues, Jobs, flows, nodes and history."""
