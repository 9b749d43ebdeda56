"""DuckDB: the default engine of queries."""
