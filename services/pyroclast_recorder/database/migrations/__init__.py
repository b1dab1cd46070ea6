"""The migrations of the schema, run by alembic."""
