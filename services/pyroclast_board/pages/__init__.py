"""The pages: from what the board knows, and from who looks, to sections of HTML."""
