"""The file that a command of `train.classical` writes, and the checkpoint beside it. No JAX."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import ClassVar

from gozero.runs import arrays
from gozero.runs import folder as folders
from gozero.runs.settings import check


class OutputFlags:
    """A base of the flags of commands that write one file: dataclasses with this field."""

    out: pathlib.Path

    def __post_init__(self):
        check(self)
        self.check_out()

    def check_out(self) -> None:
        """Refuse to overwrite a file.

        Raises:
          ValueError: an --out of another suffix, one that exists, or one that cannot be written.
        """
        arrays.check_new(self.out)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """A context in which no other process can write --out; it also creates the folder.

        Raises:
          ValueError: another process writes it, or has written it since the flags were checked.
          OSError: the folder cannot be written.
        """
        with folders.removed_if_empty(self.out.parent):
            self.out.parent.mkdir(parents=True, exist_ok=True)
            path = self.out.with_suffix(".lock")
            busy = f"--out {self.out} is being written by another process"
            with folders.lock_file(path, busy, f"nothing else writes to {self.out}"):
                try:
                    self.check_out()
                    yield
                finally:
                    path.unlink(missing_ok=True)


class ResumableFlags(OutputFlags):
    """A base of the flags of commands that write weights and resume: dataclasses with these
    fields, too."""

    resume: bool
    steps: int
    games: int
    MAY_DIFFER: ClassVar[tuple[str, ...]] = ("out", "resume")
    """The flags that may differ from those of the run that wrote the checkpoint."""

    def check_out(self) -> None:
        """Refuse to overwrite weights, or without --resume the checkpoint of a killed run.

        Raises:
          ValueError: an --out of another suffix, or one with such files.
        """
        arrays.check_name(self.out, "--out")
        if self.resume:
            return
        if self.out.exists():
            raise ValueError(f"--out {self.out} already exists; name a new file, or give --resume")
        if self.checkpoint.exists():
            raise ValueError(
                f"--out {self.out}: {self.checkpoint} is the checkpoint of a run that was killed; "
                "give --resume to continue it, or name a new file"
            )

    @property
    def checkpoint(self) -> pathlib.Path:
        return self.out.with_suffix(".checkpoint")

    @property
    def same(self) -> str:
        """The flags that must be the same in the run that wrote the checkpoint, as text."""
        return repr({k: v for k, v in vars(self).items() if k not in self.MAY_DIFFER})
