"""The tables, how rows merge into them, and what is worked out from them."""
