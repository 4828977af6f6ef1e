"""Where servers listen, in Twisted's words."""

from __future__ import annotations

from twisted.internet.endpoints import quoteStringArgument


def endpoint(address: str, port: int) -> str:
    """
    Return the description of a TCP port on one address, for L{smartgo.env.interfaces.INetwork.listen}.

    >>> endpoint("127.0.0.1", 10911)
    'tcp:10911:interface=127.0.0.1'
    """
    return f"tcp:{port}:interface={quoteStringArgument(address)}"
