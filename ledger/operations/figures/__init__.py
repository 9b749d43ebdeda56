"""Figures of a mirror: what a failover would lose, and what `status` compares with the objectives."""
