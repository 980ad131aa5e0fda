"""Shared by experiments that play games: sweeps of points, each a match between our players."""
