"""To the plugin and back: a signed context, a credential, one exchange, every failure explained."""
