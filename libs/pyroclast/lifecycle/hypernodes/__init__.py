"""HyperNodes: which nodes are below them, and how they are found out."""
