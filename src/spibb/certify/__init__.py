"""Theorems as code: certificates, the conditions they rest on, and audits of any policy."""

from spibb.certify.audit import audit
from spibb.certify.certificate import Certificate, Condition, Guarantee, StateAudit

__all__ = ["Certificate", "Condition", "Guarantee", "StateAudit", "audit"]
