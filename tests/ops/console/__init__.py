"""The console: its files, its languages, and its pages in a real browser."""
