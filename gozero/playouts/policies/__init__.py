"""Playout policies: uniform, ordered lists, MoGo's rules, a softmax of learnt feature strengths."""
