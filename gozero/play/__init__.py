"""Evaluators, players, self-play of any game, and matches between our own players."""
