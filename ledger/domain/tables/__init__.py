"""Tables of the ledger as wholes: cuts, last rows, and how they are kept small. Nothing of Kafka."""
