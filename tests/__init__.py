"""The tests of smartgo, laid out as the packages are."""
