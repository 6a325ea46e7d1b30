"""The study on risk: what auto-spibb gains and how often it does harm, beside all it may choose."""
