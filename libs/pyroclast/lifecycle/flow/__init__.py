"""Pure decisions about JobFlows: which Jobs to create, when, from which template, and what the status says."""
