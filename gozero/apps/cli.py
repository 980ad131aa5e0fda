"""The ``gozero`` command: one subcommand each for what the library does."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gozero.apps import runtime

DESCRIPTION = "Batched Monte-Carlo tree search for Go, in JAX."


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, 1 for a failure, 2 for bad input, 130 when stopped."""
    runtime.quiet_xla()
    from gozero.apps import flags, gtp, selfplay

    arguments = list(sys.argv[1:] if argv is None else argv)
    commands = {"selfplay": selfplay.SelfPlayFlags, "gtp": gtp.GtpConfig}
    config = flags.parse(commands, arguments, prog="gozero", description=DESCRIPTION)
    try:
        if isinstance(config, selfplay.SelfPlayFlags):
            return selfplay.run(config)
        return gtp.run(config, sys.stdin, sys.stdout)
    except ValueError as error:
        print(f"gozero {arguments[0]}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    sys.exit(main())
