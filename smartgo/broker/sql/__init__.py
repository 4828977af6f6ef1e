"""SQL92 filters of subscriptions: RocketMQ's grammar and type rules (docs/spec/broker#filters)."""
