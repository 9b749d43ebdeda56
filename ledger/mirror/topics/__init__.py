"""Target topics of a flow: created, grown, set and deleted as their sources are."""
