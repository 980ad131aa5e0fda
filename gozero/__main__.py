"""``python -m gozero``: the ``gozero`` command."""

from gozero.apps.cli import program

if __name__ == "__main__":
    program()
