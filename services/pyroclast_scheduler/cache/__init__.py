"""The live picture of the cluster: columns per node, jobs and queues, kept by events; a snapshot is a copy of arrays."""
