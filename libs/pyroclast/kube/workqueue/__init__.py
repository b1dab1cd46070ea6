"""Work queues, the workers that drain them, and what becomes of keys that fail."""
