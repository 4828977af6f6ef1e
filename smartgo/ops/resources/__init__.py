"""
The resources of the REST API: topics, groups, messages, brokers, alerts and the others.

A resource is a class whose methods L{smartgo.ops.web.routes.route} declares. To add one, write one module here and add
one line to the list in L{smartgo.ops.resources.catalog.all_resources}: its routing, its checks and its part of the
OpenAPI document come from the declaration.
"""
