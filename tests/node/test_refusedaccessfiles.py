"""Access control files that are refused while a broker and a registry run: what the alert and the doctor measure."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.health.judgements import JUDGEMENTS
from smartgo.health.snapshot import ClusterSnapshot
from smartgo.node.accesscontrol import PERIOD
from smartgo.node.ops import LocalNode
from smartgo.ops.figures.processcounts import counts_of
from smartgo.schema.bodies import KVTable
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from tests.broker.fakecluster import BROKER, Cluster, send_command
from tests.node.securedcluster import RULES, SENDER, SecuredCluster, lay

NAME = "accessFilesRefused"


class RefusedFilesTests(SynchronousTestCase):
    """The figure of a process, and the row of a broker's runtime information."""

    def told(self, cluster: Cluster) -> dict[str, str]:
        """Return the runtime information that a broker tells."""
        command = Command.request(RequestCode.GET_BROKER_RUNTIME_INFO)
        if isinstance(cluster, SecuredCluster):
            SENDER.sign(command)
        found = cluster.ask(command, BROKER).body
        return dict(KVTable.decode(found).table)

    def test_refused(self) -> None:
        """Both tell of files that cannot be used until they can, and nothing of what is in them."""
        cluster = SecuredCluster()
        self.addCleanup(cluster.stop)
        nodes = [LocalNode(cluster.configuration, [one]) for one in (cluster.registry, cluster.service)]
        for text, refused in ((RULES, False), ("accounts: [", True), (RULES, False)):
            lay(cluster.env, text)
            cluster.pump(3 * PERIOD)
            self.assertEqual([node.figures()[NAME] for node in nodes], [float(refused)] * 2)
            told = self.told(cluster)
            self.assertEqual(told.get(NAME), "1" if refused else None)
            self.assertEqual(counts_of(told)[NAME], float(refused))
            self.assertNotIn("plain_acl", str(told))
            self.assertEqual(cluster.signed(SENDER, send_command("orders")), (0, ""))  # the rules are in force

    def test_off(self) -> None:
        """A process without access control has no such figure."""
        cluster = Cluster()
        self.addCleanup(cluster.stop)
        self.assertNotIn(NAME, LocalNode(cluster.configuration, [cluster.registry, cluster.service]).figures())
        self.assertNotIn(NAME, self.told(cluster))

    def test_judged(self) -> None:
        """The alert is about this process and about each other one that tells it."""
        judgement = JUDGEMENTS["access-files-refused"]
        assert judgement.measure is not None
        values = judgement.measure(ClusterSnapshot(process={NAME: 1.0}, remote={"broker-b": {NAME: 0.0}}))
        assert values is not None
        self.assertEqual({subject: judgement.judge(value or 0) for subject, value in values.items()},
                         {"": "warning", "broker-b": None})  # fmt: skip
