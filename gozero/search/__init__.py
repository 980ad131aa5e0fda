"""Lockstep Monte-Carlo tree search of any two-player game. Knows no Go.

In the order of reading: `game` and `config`, the inputs of a search; `search`, the loop; its stages
`select`, `expand`, `evaluate`, `backup`, and `root`; `choose` and `dense`, the cached choice at
each node; `tree` and `rows`, the arrays; `edges` and `rules`, the inputs and scores of a
rule. Options: `leaves`, `reuse`, `transpositions`, `ensemble`, `prior_counts`, `proofs`.
"""
