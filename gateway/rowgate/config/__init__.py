"""The configuration: what can be set, read from one YAML file and judged as a whole."""
