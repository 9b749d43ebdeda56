"""Commands that run until they are done or stopped, and what such processes share."""
