"""Rules that score the edges of one node, or give its value by its children; one file a family."""
