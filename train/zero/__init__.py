"""Self-play learning: the network that searches learns from its own games."""
