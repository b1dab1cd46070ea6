"""The tables, the merge of rows, and the columns that are derived from other rows."""
