"""The query parameters of lists of alerts."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from smartgo.ops.alerts.rules import Severity
from smartgo.ops.alerts.table import Alert, PastAlert, State
from smartgo.ops.web.pagination import ListQuery

AlertsState = Annotated[State | None, Meta(description="Only those in this state.")]
AlertsSeverity = Annotated[Severity | None, Meta(description="Only those of this severity.")]
AlertsSilenced = Annotated[
    bool | None, Meta(description="true: only silenced alerts; false: only those that are not silenced.")
]


AlertsRules = Annotated[
    str,
    Meta(
        max_length=1000,
        pattern="^[a-z,-]*$",
        description="Rules, separated by commas: with `q`, their alerts are found as well, whatever `q` is.",
    ),
]


class AlertSearchQuery(ListQuery, kw_only=True):
    """A search of alerts; C{q} is searched in rule and subject."""

    rules: AlertsRules = ""

    def text(self, one: Alert | PastAlert) -> str:
        """Return the text of a row that C{q} is searched in: the names of rules in other languages match, too."""
        named = one.rule in self.rules.split(",")
        return f"{one.rule} {one.subject} {self.q if named else ''}"


class AlertsQuery(AlertSearchQuery, kw_only=True):
    """Filters of alerts."""

    state: AlertsState = None
    severity: AlertsSeverity = None
    silenced: AlertsSilenced = None
