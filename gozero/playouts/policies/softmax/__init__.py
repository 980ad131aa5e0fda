"""Playouts in proportion to the strengths of moves' features, as they were learnt."""
