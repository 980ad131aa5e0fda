"""Simulation balancing of playout strengths: python -m train.classical.balancing."""
