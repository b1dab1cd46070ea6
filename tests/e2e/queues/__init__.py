"""Who comes first: budgets, preemption and reservation."""
