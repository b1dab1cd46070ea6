"""Where the API server is, who we are to it, and whom we trust."""
