"""What the middle of the program needs from the outside, as Protocols.

Adapters implement them on Kafka, Delta and Spark; simulations and tests implement them in memory.
"""
