"""Mirror Ledger: Kafka mirroring on Spark with an append-only Delta Lake ledger of every offset."""
