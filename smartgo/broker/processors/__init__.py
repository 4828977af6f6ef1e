"""The requests that a broker answers, a module a family of requests; requestcodes.py lists all of them."""
