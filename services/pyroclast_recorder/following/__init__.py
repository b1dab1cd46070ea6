"""From the API server to rows: lists and watches that go on where the database left off."""
