"""Attackers on real processes, and a well-behaved client beside them: F20 to F26 of the reliability requirements."""
