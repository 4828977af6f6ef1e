"""The files for deployment in docs/deploy are what programs and systems take."""
