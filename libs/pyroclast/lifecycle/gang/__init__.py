"""The pods of a Job as one gang: which there should be, how they are made, and their PodGroup."""
