"""Pure decisions about JobFlows: which Jobs to make, when, from what, and what the status says."""
