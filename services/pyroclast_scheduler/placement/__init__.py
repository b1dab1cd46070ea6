"""Places pods by pure functions over arrays of node data: one plan for each shape, greedy placement, affinity and spread."""
