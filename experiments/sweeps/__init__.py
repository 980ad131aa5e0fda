"""Shared by experiments that play games: points, each a match between two of our players."""
