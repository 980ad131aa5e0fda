"""Lockstep Monte-Carlo tree search of any two-player game. Knows no Go."""
