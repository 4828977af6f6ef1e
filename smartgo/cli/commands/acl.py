"""C{smartgo acl}: decisions of access control, explained."""

from __future__ import annotations

import posixpath

import click
import msgspec

from smartgo.auth.certificates import certificate_name
from smartgo.auth.decisions import explain, explain_certificate
from smartgo.auth.rulefiles import RuleFiles
from smartgo.cli.support.output import OUTPUT, print_members
from smartgo.cli.support.running import FORBIDDEN
from smartgo.cli.support.session import do
from smartgo.cli.support.texts import examples
from smartgo.env.interfaces import IEnvironment, IFiles
from smartgo.errors import SettingError
from smartgo.net.certificatenames import names_in_file
from smartgo.schema.codes import RequestCode

_HOMES = ("ROCKETMQ_HOME", "SMARTGO_HOME")


class DecisionRow(msgspec.Struct, frozen=True):
    """A decision: what C{smartgo acl test} prints."""

    allowed: bool
    reason: str
    signature: str


def _key_and_code(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> tuple[str | None, int]:
    """Return the access key, if one is given, and the request code. @raise click.UsageError: these are other words."""
    if len(words) not in (1, 2):
        raise click.UsageError("give KEY and CODE, or CODE alone with --certificate", context)
    return words[0] if len(words) == 2 else None, _code(words[-1])


def _code(text: str) -> int:
    """Return a request code by its number or its name. @raise click.BadParameter: there is no such code."""
    if text.isascii() and text.isdigit():
        return int(text)
    found = RequestCode.__members__.get(text.upper().replace("-", "_"))
    if found is None:
        raise click.BadParameter(f"{text} is no request code; give its number, or its name such as SEND_MESSAGE_V2")
    return int(found)


def _names(files: IFiles, text: str) -> tuple[str, ...]:
    """Return the names of a certificate in a file, or the name that is given. @raise SettingError: it is neither."""
    if files.exists(text):
        return names_in_file(files, text)
    try:
        return (certificate_name(text),)
    except ValueError as error:
        raise SettingError(f"{text} is no file, and no name of a certificate: {error}") from None


@click.group(epilog=examples("smartgo acl test shop-frontend SEND_MESSAGE_V2 --topic orders --directory conf"))
def acl() -> None:
    """Explain what access control decides (docs: access control)."""


@acl.command(
    "test",
    epilog=examples(
        "smartgo acl test shop-frontend 310 --topic orders",
        "smartgo acl test billing PULL_MESSAGE --topic orders --group billing --directory /etc/smartgo/conf",
        "smartgo acl test SEND_MESSAGE_V2 --topic orders --certificate client.pem",
    ),
)
@click.argument("words", nargs=-1, required=True, metavar="[KEY] CODE", callback=_key_and_code)
@click.option("--topic", metavar="TOPIC", help="The topic that the request names.")
@click.option("--group", metavar="GROUP", help="The consumer group that the request names.")
@click.option("--from", "ip", metavar="IP", default="", help="The address that the request comes from.")
@click.option(
    "--certificate",
    metavar="FILE|NAME",
    help="The client certificate that an unsigned request comes with, in the place of KEY: a PEM file, or one of its"
    " names such as CN=orders.",
)
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
    words: tuple[str | None, int],
    topic: str | None,
    group: str | None,
    ip: str,
    certificate: str | None,
    directory: str | None,
    cluster: str,
    output: str,
) -> None:
    """Say whether requests of KEY with CODE are allowed by the files in a directory, and which line decides.

    KEY is the access key that signs them. Without it, --certificate says over which connection they come.

    Nothing is sent. The exit status is 0 if they are allowed, 77 if they are denied.
    """
    key, code = words
    if (key is None) == (certificate is None):
        raise click.UsageError("give either KEY or --certificate: a signed request is judged by its signature")
    decided: list[bool] = []

    async def work(env: IEnvironment) -> None:
        home = next((found for name in _HOMES if (found := env.host.variable(name))), env.host.home())
        rules = RuleFiles(env.files, directory or posixpath.join(home, "conf"), cluster).read()
        if key is not None:
            decision, signature = explain(rules, key, code, topic, group, ip)
        else:
            names = _names(env.files, certificate or "")
            decision, signature = explain_certificate(rules, names, code, topic, group, ip)
        decided.append(decision.allowed)
        row = DecisionRow(decision.allowed, decision.reason, signature)
        shown = {"": "allowed" if row.allowed else "denied", "reason": row.reason, "signature": row.signature}
        print_members(output, row, shown)

    do(work)
    if decided == [False]:
        raise click.exceptions.Exit(FORBIDDEN)
