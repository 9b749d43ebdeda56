"""Changes of direction between real clusters, with applications that write down what they do."""
