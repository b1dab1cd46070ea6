"""The documents of `view.pyroclast.dev/v1` as typed records, and the JSON Schema that is made from them."""
