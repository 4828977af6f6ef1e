"""Context variables of listener calls."""

from __future__ import annotations

from contextvars import ContextVar, copy_context

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.callcontext import added_since, with_added

_own: ContextVar[str] = ContextVar("own", default="none")
_span: ContextVar[str] = ContextVar("span", default="none")


class ContextTests(SynchronousTestCase):
    def test_added(self) -> None:
        """In another context are its own variables and those that were set for the call, while the call is made."""
        there = copy_context()
        there.run(_own.set, "there")

        def call() -> tuple[str, str]:
            return _own.get(), _span.get()

        def here() -> None:
            _own.set("here")
            before = copy_context()
            _span.set("call")
            with added_since(before):
                self.assertEqual(with_added(there).run(call), ("there", "call"))
            self.assertEqual(with_added(there).run(call), ("there", "none"))

        copy_context().run(here)
        self.assertEqual(there.run(call), ("there", "none"))
