"""HyperNodes: the nodes below each HyperNode, and the discovery of HyperNodes."""
