"""The common base of request processors."""

from __future__ import annotations


class Processor:
    """
    The quiet half of an L{IRequestProcessor<smartgo.remoting.interfaces.IRequestProcessor>}: takes every request, and
    puts nothing off to the end of a run. Processors that do override that; what is not overridden is never called.
    """

    def refuses(self) -> bool:
        """Return False: no request is refused for lack of room."""
        return False

    def run_ended(self) -> None:
        """Do nothing after a run."""
