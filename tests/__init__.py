"""The tests of smartgo, laid out as the packages are."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Run in a shell's background. Programs that tests start, and stop by ctrl-C, would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
