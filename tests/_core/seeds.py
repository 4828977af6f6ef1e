"""
Seeds for C{fuzz.c}: frames of the tape of sends, as files in a folder, or one after another on standard output.

    python -m tests._core.seeds [FOLDER]
"""

from __future__ import annotations

import os
import sys

from tests.broker.sendtape import Tape


def main() -> None:
    """Write the seeds."""
    frames = [frame for frame in Tape(1).frames(600, 0.4) if len(frame) < 8192]
    if len(sys.argv) < 2:
        sys.stdout.buffer.write(b"".join(frames))
        return
    for number, frame in enumerate(frames):
        with open(os.path.join(sys.argv[1], f"{number:03}"), "wb") as file:
            file.write(frame[4:])


if __name__ == "__main__":
    main()
