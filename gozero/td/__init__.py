"""RLGO: the value of local shapes, learning it by TD(0), and temporal-difference search."""
