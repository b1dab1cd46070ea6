"""Decides when a CronJob creates Jobs, and which of its finished Jobs are deleted."""
