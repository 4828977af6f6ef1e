"""Work on the directory of a store without a broker: list, read, check, compare, export, repair. All of it blocks."""
