"""The lifecycle of a Job: its state table, the policy engine and what follows from both."""
