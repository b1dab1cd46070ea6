"""The read-only web page that shows queues, Jobs, flows, nodes and history."""
