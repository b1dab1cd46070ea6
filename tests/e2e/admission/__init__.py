"""What is refused: by webhooks, by policies, and for lack of rights."""
