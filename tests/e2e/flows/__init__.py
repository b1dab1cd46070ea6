"""JobFlows from the user's side."""
