"""What acts: networks, feature extractors, action distributions, and the policies built from them."""
