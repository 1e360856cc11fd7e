"""One run's steps in order: batches ahead, stopping, diagnosis, the line on stderr."""
