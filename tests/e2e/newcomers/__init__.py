"""What a new user does first: the tutorials, the examples, and where others once stumbled."""
