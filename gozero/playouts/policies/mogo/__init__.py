"""Playouts by MoGo's rules, each move an answer to the last one."""
