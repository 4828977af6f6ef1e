"""C{smartgo acl}: decisions of access control, explained."""

from __future__ import annotations

import posixpath

import click
import msgspec

from smartgo.auth.decisions import explain
from smartgo.auth.rulefiles import RuleFiles
from smartgo.cli.support.output import OUTPUT, print_members
from smartgo.cli.support.running import FORBIDDEN
from smartgo.cli.support.session import do
from smartgo.cli.support.texts import examples
from smartgo.env.interfaces import IEnvironment
from smartgo.schema.codes import RequestCode

_HOMES = ("ROCKETMQ_HOME", "SMARTGO_HOME")


class DecisionRow(msgspec.Struct, frozen=True):
    """A decision: what C{smartgo acl test} prints."""

    allowed: bool
    reason: str
    signature: str


def _code(context: click.Context, parameter: click.Parameter, text: str) -> int:
    """Return a request code by its number or its name. @raise click.BadParameter: there is no such code."""
    if text.isascii() and text.isdigit():
        return int(text)
    found = RequestCode.__members__.get(text.upper().replace("-", "_"))
    if found is None:
        raise click.BadParameter(f"{text} is no request code; give its number, or its name such as SEND_MESSAGE_V2")
    return int(found)


@click.group(epilog=examples("smartgo acl test shop-frontend SEND_MESSAGE_V2 --topic orders --directory conf"))
def acl() -> None:
    """Explain what access control decides (docs: access control)."""


@acl.command(
    "test",
    epilog=examples(
        "smartgo acl test shop-frontend 310 --topic orders",
        "smartgo acl test billing PULL_MESSAGE --topic orders --group billing --directory /etc/smartgo/conf",
    ),
)
@click.argument("key")
@click.argument("code", callback=_code)
@click.option("--topic", metavar="TOPIC", help="The topic that the request names.")
@click.option("--group", metavar="GROUP", help="The consumer group that the request names.")
@click.option("--from", "ip", metavar="IP", default="", help="The address that the request comes from.")
@click.option(
    "--directory",
    metavar="DIR",
    help="The directory of plain_acl.yml and users.json (aclPath).  [default: conf below ROCKETMQ_HOME or SMARTGO_HOME,"
    " or ~]",
)
@click.option(
    "--cluster",
    metavar="CLUSTER",
    default="DefaultCluster",
    show_default=True,
    help="The broker's cluster (brokerClusterName), which policies of users may name.",
)
@OUTPUT
def test(
    key: str,
    code: int,
    topic: str | None,
    group: str | None,
    ip: str,
    directory: str | None,
    cluster: str,
    output: str,
) -> None:
    """Say whether requests of KEY with CODE are allowed by the files in a directory, and which line decides.

    Nothing is sent. The exit status is 0 if they are allowed, 77 if they are denied.
    """
    decided: list[bool] = []

    async def work(env: IEnvironment) -> None:
        home = next((found for name in _HOMES if (found := env.host.variable(name))), env.host.home())
        rules = RuleFiles(env.files, directory or posixpath.join(home, "conf"), cluster).read()
        decision, signature = explain(rules, key, code, topic, group, ip)
        decided.append(decision.allowed)
        row = DecisionRow(decision.allowed, decision.reason, signature)
        shown = {"": "allowed" if row.allowed else "denied", "reason": row.reason, "signature": row.signature}
        print_members(output, row, shown)

    do(work)
    if decided == [False]:
        raise click.exceptions.Exit(FORBIDDEN)
