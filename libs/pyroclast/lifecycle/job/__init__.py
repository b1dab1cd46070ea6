"""The lifecycle of a Job: the table of phase transitions, the policies, and the decisions that follow from both."""
