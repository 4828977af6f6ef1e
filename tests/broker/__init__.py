"""The broker: its tables and request processors."""
