"""The REST API and the console of a cluster, as a process of its own: C{twistd smartgo-ops}."""

from __future__ import annotations

from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.net.sweeper import Sweeper
from smartgo.node.accesscontrol import AccessService
from smartgo.node.assembly import NodeService, make_service
from smartgo.node.options import FrontOptions as Options
from smartgo.node.options import NodeOptions
from smartgo.node.process import Process
from smartgo.node.settingchecks import check_access_control

__all__ = ["Options", "makeService"]


def prepare(env: IEnvironment, configuration: Configuration) -> None:
    """Check the files of access control, where it is on; the REST API checks itself. @raise SettingError: see there."""
    check_access_control(env, configuration)


def assemble(
    env: IEnvironment,
    options: NodeOptions,
    configuration: Configuration,
    prepared: None,
    process: Process,
    sweeper: Sweeper,
    access: AccessService | None = None,
) -> list[object]:
    """Return no service: the process has only the REST API."""
    return []


def makeService(options: Options) -> NodeService:
    """Assemble an API before a cluster."""
    return make_service(options, prepare, assemble)
