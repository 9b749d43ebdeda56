"""What every implementation of a port keeps: one class per port, which memory, Delta and Kafka all run.

All that the simulator proves rests on its ledger and its brokers doing what the real ones do.
"""
