"""Bytes <-> values: every record, header and frame, written down once. No I/O, no clock, no reactor."""
