"""Players of Go: the game, its evaluators, self-play."""
