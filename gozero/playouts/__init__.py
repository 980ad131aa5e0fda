"""Evaluating positions without a network: playouts and the policies that choose their moves."""
