"""The copy task: batches from a source to a target, inside the executors of a round."""
