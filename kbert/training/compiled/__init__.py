"""A step compiled for a slice of TPUs that is not there: by Google's compiler, on any machine."""
