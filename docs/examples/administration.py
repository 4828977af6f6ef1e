"""Create a topic, read a group's lag, reset the group's offsets, and undo that; after C{client.py} has run."""

import sys

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from smartgo import Admin, Client, RealEnvironment, ResetTarget, lag_of


async def administrate(reactor, registry="127.0.0.1:9876"):
    client = Client(RealEnvironment(reactor), registry)
    admin = Admin(client)
    await admin.topics.create("Orders", queues=8)

    print("lag", lag_of(await admin.groups.progress("example-consumers")))
    plan = await admin.positions.plan("example-consumers", "Example", ResetTarget("earliest"))  # changes nothing
    await admin.positions.apply(plan)
    print("lag", lag_of(await admin.groups.progress("example-consumers")))
    await admin.positions.apply(plan.undone())

    definitions = await admin.definitions.export()  # settings of topics and groups
    for step in await admin.definitions.plan(definitions):  # a preview of the import, item by item
        if step.due:
            await admin.definitions.write(step)  # step.item.outcome: "created", "changed" or "failed"
    await client.stop()


if __name__ == "__main__":
    react(lambda reactor, *arguments: Deferred.fromCoroutine(administrate(reactor, *arguments)), sys.argv[1:])
