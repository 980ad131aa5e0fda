"""Strengths of moves by minorisation-maximisation: python -m train.classical.mm."""
