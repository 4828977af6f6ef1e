"""A check for a Java that Spark can run on, made first because the errors of Spark do not name what is missing."""

from __future__ import annotations

import os.path
import re
import subprocess
from functools import lru_cache
from typing import Final

from smartgo.errors import SettingError

LEAST: Final = 17
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The variable by which C{spark-submit} tells where its Java listens."""
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def is_submitted() -> bool:
    """Tell whether C{spark-submit} started this process, and so a Java before it."""
    return _SUBMITTED in os.environ


@lru_cache(maxsize=1)
def check_java() -> None:
    """
    Check that there is a Java that Spark runs on: that of C{JAVA_HOME}, else the one on the C{PATH}.

    What C{spark-submit} started has one already.

    @raise SettingError: there is none, or it is too old; the sentence says what is needed.
    """
    if is_submitted():
        return
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else "java"
    where = f"JAVA_HOME={home}" if home else "the PATH"
    try:
        done = subprocess.run(  # noqa: S603 - the user's own JAVA_HOME or PATH
            [program, "-version"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        raise SettingError(f"Spark needs Java {LEAST} or newer, and there is none in {where}; {_ADVICE}") from None
    found = _VERSION.search(done.stderr + done.stdout)
    if found is None:
        raise SettingError(f"Spark needs Java {LEAST} or newer, and {program} does not tell its version; {_ADVICE}")
    if int(found[1]) < LEAST:
        raise SettingError(f"Spark needs Java {LEAST} or newer, and {where} has Java {found[1]}; {_ADVICE}")


_ADVICE: Final = "install a JDK (such as Debian's openjdk-17-jre-headless) or set JAVA_HOME"
