"""Playouts by MoGo's rules, in which each move responds to the last one."""
