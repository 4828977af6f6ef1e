"""
Health: one table of judgements that alerts, C{smartgo doctor}, readiness and the Grafana rules read.

C{snapshot} has the values that are judged, C{judgements} the table: names, severities, thresholds, sentences, advice.
Nothing here does I/O or knows the time: who measures hands over plain values.
"""
