"""Training networks by self-play: ``python -m train --preset NAME``. Checkout only."""
