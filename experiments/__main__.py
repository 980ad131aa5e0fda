"""Says which command runs which experiment."""

import sys

from experiments import usage

sys.exit(usage.main(__package__))
