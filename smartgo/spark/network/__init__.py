"""
Topics read from brokers over the network, as the table of messages: C{option("registry", "host:port")}.

Workers use blocking sockets, so they need no Twisted. What decides (L{pullwindow}, L{queueranges}, L{timesearch},
L{offsetforms}) does no I/O; L{wire} is the only door to sockets and clocks.
"""
