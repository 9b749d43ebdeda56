"""Changes of direction: plans, and how they are carried out."""
