"""
What explanations say: sentences in English by code, with {blanks} that values fill.

Who shows them in another language has sentences of the same codes and blanks. The console's tables have, under C{said.}
and the code, and a test says so.
"""

from __future__ import annotations

from typing import Final

SENTENCES: Final = {
    "message.found": "It is in {topic}, queue {queueId} of broker {broker}, at {offset}.",
    "message.missing": "{reason}.",
    "permission.readable": "Topic {topic} can be read at broker {broker}.",
    "permission.unreadable": "Topic {topic} cannot be read at broker {broker}.",
    "group.known": "Group {group} is known at broker {broker}.",
    "group.missing": "There is no group {group}.",
    "group.elsewhere": "There is no group {group} at broker {broker}.",
    "enabled.yes": "The group may consume.",
    "enabled.no": "The group may not consume at broker {broker}.",
    "members.none": "No member of the group is connected.",
    "members.one": "1 member is connected.",
    "members.many": "{members} members are connected.",
    "subscription.missing": "The group does not subscribe to {topic}.",
    "subscription.there": "The group subscribes to {topic}: {wants}.",
    "filter.unknown": "Whether {wants} lets it in, its broker alone knows.",
    "filter.passed": "The subscription lets it in.",
    "filter.tag": "The subscription wants {wants}; the message has tag {tag}.",
    "filter.untagged": "The subscription wants {wants}; the message has no tag.",
    "position.broadcast": "Each member keeps for itself how far it is (broadcast).",
    "position.missing": "The group has no position in this queue yet.",
    "position.next": "It is the next one.",
    "position.ahead": "The group stands at {position}; it comes after {ahead} others.",
    "position.moved": "The group was moved past it, by plan {plan}.",
    "position.pulled": "The group stands at {position}, past it; what its members pull is theirs to say.",
    "position.past": "The group stands at {position}, past it.",
    "retry.coming": "It was given back, and will come again.",
    "retry.over": "It was given back and came again; the group is past that.",
    "retry.none": "It was not given back, as far as the index tells.",
    "dead.letter": "It was given back too often, and put aside.",
    "dead.none": "It is no dead letter, as far as the index tells.",
    "verdict.consumed": "Group {group} has consumed it.",
    "verdict.waiting": "Group {group} has not come to it yet.",
    "verdict.filtered": "The subscription of group {group} leaves it out.",
    "verdict.retrying": "Group {group} gave it back; it will come again.",
    "verdict.dead": "Group {group} gave it back too often; it is a dead letter now.",
    "verdict.skipped": "Group {group} was moved past it.",
    "verdict.offline": "Group {group} has no member connected.",
    "verdict.not-subscribed": "Group {group} does not subscribe to {topic}.",
    "verdict.disabled": "Group {group} may not consume.",
    "verdict.no-permission": "Topic {topic} cannot be read.",
    "verdict.no-message": "{reason}.",
    "verdict.no-group": "There is no group {group}.",
    "verdict.unknown": "What became of it in group {group} cannot be told.",
}
