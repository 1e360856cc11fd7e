"""A run's settings: their defaults, rules and texts, and objects that a user gives for one."""
