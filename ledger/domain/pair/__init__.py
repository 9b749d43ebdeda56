"""Where a group continues at another cluster: the algebra over a pair of clusters.

`first_unread` states the rule; the other modules say what it is asked of.
"""
