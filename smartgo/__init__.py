"""smartgo: a message broker on Twisted, compatible with RocketMQ's protocol and store files."""
