"""When a CronJob makes Jobs, and what becomes of those that it made."""
