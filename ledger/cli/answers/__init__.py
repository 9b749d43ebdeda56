"""Commands that read and answer."""
