"""Training the network on self-play: ``python -m train --data DIR --steps N``. Checkout only."""
