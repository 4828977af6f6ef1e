"""
The small web framework below the REST API: routes, requests, problems, streams, jobs, OpenAPI.

It knows no broker and no resource: C{tests/test_layers.py} holds what it may import.
"""
