"""Speed as ratios to a peer or a bound, measured in one run."""
