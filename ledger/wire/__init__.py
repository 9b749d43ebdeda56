"""Record batches and the two hot requests: bytes in, bytes out, no sockets."""
