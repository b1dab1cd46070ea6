"""Work queues, their workers, and the retries of failed keys."""
