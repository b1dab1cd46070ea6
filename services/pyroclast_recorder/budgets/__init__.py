"""What queues have spent of their budgets: added up from usage, and written to the queues."""
