"""One run of a flow: its rounds, what it copies of what others mirrored, how far it is and how it ended."""
