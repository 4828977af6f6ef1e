"""The consume queues: their units, their files, and how they are removed."""
