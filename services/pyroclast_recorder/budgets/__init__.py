"""The spent part of the budgets of queues, added up from usage and written to the queues."""
