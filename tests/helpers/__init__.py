"""What test files share, and the programs that they run in processes of their own."""
