"""What a user may set for a run: a setting's rule, its text, and objects given for one."""
