"""The official, unmodified RocketMQ clients and tools against our broker and registry, or against the real ones."""
