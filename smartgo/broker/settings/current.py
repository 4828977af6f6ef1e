"""The settings in force, for the objects that read them each time they need them."""

from __future__ import annotations

from typing import Final

from smartgo.config.loading import Configuration
from smartgo.config.settings import BrokerConfig, HaConfig, LimitsConfig, StoreConfig

READ_EACH_TIME: Final = (
    "autoCreateSubscriptionGroup",
    "haBeginAnew",
    "longPollingEnable",
    "longPollingMaxTimeMills",
    "maxHeldPulls",
    "maxHeldPullsPerConnection",
    "maxQueuesPerTopic",
    "maxTopics",
    "notifyConsumerIdsChangedEnable",
    "shortPollingTimeMills",
    "traceOn",
)
"""The settings that can be changed while a broker runs and that nobody keeps a copy of, so nobody has to be told."""


class CurrentSettings:
    """
    One broker's settings as they are now.

    Whoever is given this reads a setting when it needs it and keeps no copy, so a change counts at once. Each table is
    frozen. A change replaces a table as a whole, and L{LiveSettings<smartgo.broker.settings.live.LiveSettings>} alone
    makes one; nobody else writes to this.

    @ivar configuration: all tables, with where each value is from.
    @ivar broker, store, ha, limits: tables of C{configuration}.
    """

    __slots__ = ("broker", "configuration", "ha", "limits", "store")

    configuration: Configuration
    broker: BrokerConfig
    store: StoreConfig
    ha: HaConfig
    limits: LimitsConfig

    def __init__(self, configuration: Configuration | None = None) -> None:
        """@param configuration: what is in force at first; without one, the defaults."""
        self.replace(Configuration() if configuration is None else configuration)

    def replace(self, configuration: Configuration) -> None:
        """Put another configuration in force."""
        self.configuration = configuration
        self.broker = configuration.broker
        self.store = configuration.store
        self.ha = configuration.ha
        self.limits = configuration.limits
