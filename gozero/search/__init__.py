"""Lockstep Monte-Carlo tree search of any two-player game. Knows no Go.

In the order of reading: `game` and `config`, what a search is given; `search`, the loop; its stages
`select`, `expand`, `evaluate`, `backup`, and `root`; `choose` and `dense`, the cached choice at
each node; `tree` and `rows`, the arrays; `edges` and `rules`, what a rule sees and says. What a
search may do besides: `leaves`, `reuse`, `transpositions`, `ensemble`, `prior_counts`, `proofs`.
"""
