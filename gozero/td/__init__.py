"""RLGO: the values of local shapes, how they are learnt, and temporal-difference search."""
