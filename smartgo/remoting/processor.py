"""The common bases of request processors and of hooks."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred

from smartgo.remoting.interfaces import Answer, IPeer, IRequestHook, IRunSource
from smartgo.remoting.rungrants import RunGrants
from smartgo.schema.command import Command


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


class RequestHook:
    """
    The quiet half of an L{IRequestHook<smartgo.remoting.interfaces.IRequestHook>}: lets every request pass, and looks
    at no answer. Hooks that do override that; what is not overridden is never called, and costs nothing.

    @ivar grants: C{None}: it sees each request.
    """

    grants: RunGrants | None = None

    def before(self, peer: IPeer, request: Command) -> Deferred[None] | None:
        """Let a request pass."""
        return None

    def after(self, peer: IPeer, request: Command, answer: Answer) -> None:
        """Do nothing with an answer."""


def has_grants(hooks: Sequence[IRequestHook], source: IRunSource) -> bool:
    """Tell whether hooks need not see what runs of a processor take: its grants are those of the only hook."""
    if not hooks:
        return True
    (hook, *others) = hooks
    sees_answers = getattr(type(hook), "after", None) is not RequestHook.after
    return not others and not sees_answers and hook.grants is not None and hook.grants is source.grants
