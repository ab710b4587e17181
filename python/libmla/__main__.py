"""`python -m libmla`: the mla command line, and `doctor`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def binary() -> Path:
    """The mla program that came with the package."""
    return Path(__file__).parent / "bin" / "mla"


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["doctor"]:
        from .doctor import main as doctor

        return doctor(arguments[1:])
    program = binary()
    if not program.exists():
        print(f"libmla: {program} is not there; reinstall libmla", file=sys.stderr)
        return 2
    sys.stdout.flush()
    os.execv(program, [str(program), *arguments])


if __name__ == "__main__":
    sys.exit(main())
