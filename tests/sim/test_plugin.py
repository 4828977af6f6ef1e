"""The example for authors of plugins: a gateway of one's own in the simulator (docs/simulator.rst)."""

from __future__ import annotations

import os
import runpy

from twisted.trial.unittest import SynchronousTestCase

EXAMPLES = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "docs", "examples")


class PluginTests(SynchronousTestCase):
    """The gateway of docs/examples in the simulator."""

    def test_seeds(self) -> None:
        """Whatever fails, every line comes back in order, and the client goes on when the faults are over."""
        gateway = runpy.run_path(os.path.join(EXAMPLES, "echo_gateway.py"), run_name="example")["gateway"]
        simulation_of = runpy.run_path(os.path.join(EXAMPLES, "simulated_gateway.py"), run_name="example")["Simulation"]
        for seed in range(5):
            simulation = simulation_of(seed, gateway)
            simulation.run()
            found = [int(line.split()[1]) for line in simulation.returned]
            self.assertEqual(found, list(range(len(found))), f"seed {seed}")
            self.assertGreater(len(found), 250, f"seed {seed}")  # one each 0.2 s of the minute without faults
            self.assertEqual(simulation.kernel.bugs, [], f"seed {seed}")
