"""What the tests of this package are made of, shipped for the tests of yours.

``spibb.testing.reference`` holds slow, obvious twins of the kernels; ``spibb.testing.strategies``
holds Hypothesis strategies and needs ``pip install "spibb[testing]"``. Import the one you want:
this module loads neither.
"""
