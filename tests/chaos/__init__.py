"""Real processes under faults: what they did is recorded, and a checker says whether any promise was broken."""
