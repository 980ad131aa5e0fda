"""Lockstep Monte-Carlo tree search for any two-player game; nothing here is specific to Go.

Reading order: `game` and `config`, the inputs of a search; `search`, the loop; its stages `select`,
`expand`, `evaluate`, `backup`, and `root`; `choose` and `dense`, which cache the choice at each
node; `tree` and `rows`, the arrays; `edges` and `rules`, what a selection rule sees and how it
scores it. Options: `leaves`, `reuse`, `transpositions`, `ensemble`, `prior_counts`, `proofs`.
"""
