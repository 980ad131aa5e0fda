"""Learning without networks: local shapes, strengths of patterns, playouts that are balanced."""
