"""
The programs that are measured: one for each client library, all with the same orders and the same window.

They are run in processes of their own, those of Kafka by a Python that has neither smartgo nor its dependencies.
"""
