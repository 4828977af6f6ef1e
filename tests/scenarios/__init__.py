"""What each face of the product says while something is wrong: scenarios on real processes."""
