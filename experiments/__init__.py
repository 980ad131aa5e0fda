"""Experiments: one folder each, run from a checkout as ``python -m experiments.NAME.run``."""
