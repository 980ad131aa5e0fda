"""Playouts that choose moves in proportion to the learnt strengths of their features."""
