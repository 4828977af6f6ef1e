"""Access control: accounts and their rights, signatures, what each request code needs, and the files with all that."""
