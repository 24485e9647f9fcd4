"""Provenance: names of models and data, where they come from, and how results were made."""

from pdtools.provenance.origin import check_fingerprint, fingerprint, identify, provenance
