"""C{smartgo console}: print a login link of the console."""

from __future__ import annotations

import click

from smartgo.cli.support.output import OUTPUT, TEXT, moment, print_value
from smartgo.cli.support.rest import RestClient, RestOptions, api_options
from smartgo.cli.support.texts import examples


@click.command(
    epilog=examples(
        "smartgo console",
        "smartgo console --api https://broker-a.example.com:10913 --token-file admin.token",
    )
)
@OUTPUT
@api_options
def console(rest: RestOptions, output: str) -> None:
    """Print a login link of the console. It logs you in as admin; it works once and expires in one hour.

    Needs a token with the scope admin, or an administrator's account. "smartgo dev" keeps a token in its data
    directory, which this command finds there.
    """

    async def work(api: RestClient) -> None:
        link = await api.order("POST", "/session/links")
        url = f"{api.url.rstrip('/')}/{link['path']}"
        if output == TEXT:
            click.echo(url)
            click.echo(f"works once, until {moment(link['expiresMs'])}", err=True)
        else:
            print_value(output, {"url": url, "expiresMs": link["expiresMs"]})

    rest.do(work)
