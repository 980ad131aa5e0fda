"""Players of Go: the game, its evaluators, self-play, matches of ours."""
