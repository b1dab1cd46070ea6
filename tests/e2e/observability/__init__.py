"""What is remembered, measured and traced."""
