"""Says which command runs this experiment."""

import sys

from experiments import usage

sys.exit(usage.main(__package__))
