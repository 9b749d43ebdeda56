"""The demonstration: a busy cluster is mirrored and lost, applications fail over, and every record is compared."""
