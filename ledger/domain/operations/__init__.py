"""What is recorded in `operations`: a class for each kind, and what rows of a kind add up to."""
