"""Where pods go, as pure functions over columns: plans per shape, greedy placement, inter-pod affinity, topology spread."""
