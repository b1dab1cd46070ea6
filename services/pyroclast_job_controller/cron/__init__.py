"""The controller of CronJobs, which creates Jobs at scheduled times."""
