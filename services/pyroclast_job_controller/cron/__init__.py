"""CronJobs: Jobs at set times."""
