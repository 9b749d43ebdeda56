"""Making a cluster ready for applications that come to it from another one, or for the mirror back to that one."""
