"""What the end-to-end tests are made of: control planes, nodes, readers of audit logs, load and faults."""
