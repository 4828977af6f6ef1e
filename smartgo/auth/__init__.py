"""Access control: accounts and their rights, signatures, what each request code needs. No sockets, files or clocks."""
