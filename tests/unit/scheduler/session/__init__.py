"""What a session decides."""
