"""What a run would need: memory and time by formula, or of the step that a chip's compiler made."""
