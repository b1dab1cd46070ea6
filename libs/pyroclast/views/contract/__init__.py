"""The documents of `view.pyroclast.dev/v1` as typed records, and the JSON Schema made from the records."""
