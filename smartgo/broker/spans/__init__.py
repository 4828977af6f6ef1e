"""OpenTelemetry spans of messages that were stored and delivered, where the setting C{otelEndpoint} asks for them."""
