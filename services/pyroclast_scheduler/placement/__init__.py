"""Placement of pods as pure functions over columns: plans per shape, greedy placement, inter-pod affinity, topology spread."""
