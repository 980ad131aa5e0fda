"""Evaluating positions without a network: playouts and the policies that steer them."""
