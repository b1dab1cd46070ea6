"""The commands of the original, with its bytes: names of flags, texts, tables and exit statuses."""
