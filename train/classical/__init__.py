"""Learning without networks: local shapes, strengths of patterns, balanced playouts."""
