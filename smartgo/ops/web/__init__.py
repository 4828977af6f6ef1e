"""The small web framework below the REST API: routes, requests, problems, streams, jobs, OpenAPI."""
