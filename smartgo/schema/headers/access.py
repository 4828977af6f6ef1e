"""
Headers about the access control of 4.x: 50, 51, 52, 53.

Source: C{CreateAccessConfigRequestHeader}, C{DeleteAccessConfigRequestHeader}, C{GetBrokerAclConfigResponseHeader} and
C{UpdateGlobalWhiteAddrsConfigRequestHeader} of RocketMQ 4.9.8.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.headerfields import Header


class UpdateAccountRequest(Header, gc=False):
    """
    50: create or change an account.

    @ivar topic_perms: of the form C{NAME=PERMISSION}, with commas between them; C{group_perms} likewise.
    """

    account: str = field(name="accessKey")
    secret_key: str | None = field(name="secretKey", default=None)
    white_remote_address: str | None = field(name="whiteRemoteAddress", default=None)
    admin: bool = False
    default_topic_perm: str | None = field(name="defaultTopicPerm", default=None)
    default_group_perm: str | None = field(name="defaultGroupPerm", default=None)
    topic_perms: str | None = field(name="topicPerms", default=None)
    group_perms: str | None = field(name="groupPerms", default=None)


class DeleteAccountRequest(Header, gc=False):
    """51: delete an account."""

    account: str = field(name="accessKey")


class WhiteAddressesRequest(Header, gc=False):
    """
    53: replace the addresses whose requests need no signature.

    @ivar addresses: with commas between them.
    @ivar file: the file; absent for C{plain_acl.yml}.
    """

    addresses: str = field(name="globalWhiteAddrs")
    file: str | None = field(name="aclFileFullPath", default=None)


class AccessVersionResponse(Header, gc=False):
    """
    52's answer.

    @ivar version: of C{plain_acl.yml}, as JSON.
    @ivar all_versions: of all files, by name, as JSON.
    """

    version: str
    all_versions: str = field(name="allAclFileVersion")
    broker_name: str = field(name="brokerName")
    broker_addr: str = field(name="brokerAddr")
    cluster_name: str = field(name="clusterName")
