"""
The texts of explanations: sentences in English by code, with {blanks} that values fill.

Who shows them in another language has sentences of the same codes and blanks. The console's tables have, under C{said.}
and the code, and a test says so.
"""

from __future__ import annotations

from typing import Final

TEXTS: Final = {
    "message.found": "The message is in {topic}, queue {queueId} of broker {broker}, at offset {offset}.",
    "message.missing": "{reason}.",
    "permission.readable": "Topic {topic} is readable at broker {broker}.",
    "permission.unreadable": "Topic {topic} is not readable at broker {broker}.",
    "group.known": "Group {group} exists at broker {broker}.",
    "group.missing": "Group {group} does not exist.",
    "group.elsewhere": "Group {group} does not exist at broker {broker}.",
    "enabled.yes": "Consumption is enabled for the group.",
    "enabled.no": "Consumption is disabled for the group at broker {broker}.",
    "members.none": "The group has no connected members.",
    "members.one": "1 member is connected.",
    "members.many": "{members} members are connected.",
    "subscription.missing": "The group does not subscribe to {topic}.",
    "subscription.there": "The group subscribes to {topic}: {wants}.",
    "filter.unknown": "Only the broker can tell whether the message matches {wants}.",
    "filter.passed": "The message matches the subscription.",
    "filter.tag": "The subscription expects {wants}; the message has tag {tag}.",
    "filter.untagged": "The subscription expects {wants}; the message has no tag.",
    "position.broadcast": "Each member keeps its own offset (broadcast mode).",
    "position.missing": "The group has no consumer offset in this queue yet.",
    "position.next": "The message is the next one.",
    "position.ahead": "The consumer offset is {position}; messages before this one: {ahead}.",
    "position.moved": "An offset reset skipped the message (plan {plan}).",
    "position.pulled": "The consumer offset is {position}, past the message. "
    "The members pull by themselves; only they know what they received.",
    "position.past": "The consumer offset is {position}, past the message.",
    "retry.coming": "Consumption failed; the message will be redelivered.",
    "retry.over": "Consumption failed and the message was redelivered; the group is past it.",
    "retry.none": "The index shows no retry of the message.",
    "dead.letter": "The message failed too many times and became a dead letter.",
    "dead.none": "The index shows no dead letter of the message.",
    "verdict.consumed": "Group {group} has consumed the message.",
    "verdict.waiting": "Group {group} has not reached the message yet.",
    "verdict.filtered": "The subscription of group {group} filters the message out.",
    "verdict.retrying": "Consumption failed in group {group}; the message will be redelivered.",
    "verdict.dead": "Consumption failed too many times in group {group}; the message is now a dead letter.",
    "verdict.skipped": "An offset reset of group {group} skipped the message.",
    "verdict.offline": "Group {group} has no connected members.",
    "verdict.not-subscribed": "Group {group} does not subscribe to {topic}.",
    "verdict.disabled": "Consumption is disabled for group {group}.",
    "verdict.no-permission": "Topic {topic} is not readable.",
    "verdict.no-message": "{reason}.",
    "verdict.no-group": "Group {group} does not exist.",
    "verdict.unknown": "The delivery state in group {group} cannot be determined.",
}
