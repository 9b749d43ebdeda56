"""The only place for libraries that do IO: Kafka, Delta, Spark, DuckDB, and their in-memory stand-ins."""
