"""Policies of playouts: uniform, MoGo's rules, and a softmax over learnt strengths of features."""
