"""The path from the API server to rows: lists and watches that resume where the rows in the database end."""
