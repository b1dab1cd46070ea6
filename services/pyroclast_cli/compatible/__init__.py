"""The commands of Volcano, with its bytes: names of flags, texts, tables and exit statuses."""
