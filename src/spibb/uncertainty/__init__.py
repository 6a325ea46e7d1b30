"""How far estimates may be off: error functions and the range of returns."""
