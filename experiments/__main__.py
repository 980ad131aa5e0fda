"""Prints the command that runs each experiment."""

import sys

from experiments import usage

sys.exit(usage.main(__package__))
