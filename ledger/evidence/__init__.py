"""Evidence that stands without this program: bundles, and the file that verifies them."""
