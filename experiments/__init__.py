"""Experiments: one folder each, run from a checkout as ``python -m experiments.NAME.run``."""

from gozero.apps import runtime

runtime.prepare()  # before a program of this package imports JAX
