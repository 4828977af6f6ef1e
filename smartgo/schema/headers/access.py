"""
Headers about access control: of 4.x (50, 51, 52, 53), and of 5.x (3001 to 3010).

Source: C{CreateAccessConfigRequestHeader}, C{DeleteAccessConfigRequestHeader}, C{GetBrokerAclConfigResponseHeader} and
C{UpdateGlobalWhiteAddrsConfigRequestHeader} of RocketMQ 4.9.8; C{CreateUserRequestHeader} and its like of 5.3.3.
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


class UserRequest(Header, gc=False):
    """3001 to 3004: a user of RocketMQ 5."""

    username: str | None = None


class ListUsersRequest(Header, gc=False):
    """3005: the users whose names have a part."""

    part: str | None = field(name="filter", default=None)


class SubjectRequest(Header, gc=False):
    """3006, 3007 and 3009: whose policies."""

    subject: str


class DeletePoliciesRequest(Header, gc=False):
    """3008: the policies of a subject, or the entry for one resource of one of them."""

    subject: str
    policy_type: str | None = field(name="policyType", default=None)
    resource: str | None = None


class ListPoliciesRequest(Header, gc=False):
    """3010: the policies whose subjects and resources have certain parts."""

    subject_part: str | None = field(name="subjectFilter", default=None)
    resource_part: str | None = field(name="resourceFilter", default=None)
