"""The compiled core, piece by piece."""
