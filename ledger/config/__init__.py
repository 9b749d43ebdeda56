"""Configuration: one TOML file to frozen values, every problem reported at once.

Clusters carry client properties by their librdkafka names. A secret is a reference to an environment
variable or a file and is looked up only when a client is built, so a configuration can be printed,
logged and sent to executors. `conf/example.toml` explains every key.
"""
