"""What suites share: real clusters and flows, ledgers as data, samples. Nothing in here is a test."""
