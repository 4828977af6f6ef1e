"""The broker: topics, groups, offsets, sends, pulls, delays and retries over one message store."""
