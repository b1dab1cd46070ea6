"""State tables, the policy engine and plans, pure."""
