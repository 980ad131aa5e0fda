"""Prints the command that runs this experiment."""

import sys

from experiments import usage

sys.exit(usage.main(__package__))
