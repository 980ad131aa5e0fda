"""Selection rules, which score a node's edges, and backup operators; one file per family."""
