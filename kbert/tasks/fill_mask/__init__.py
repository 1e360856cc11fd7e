"""Words for [MASK]: `fill_mask`."""
