"""How strong an unrecorded cause of actions and outcomes must be to cancel an expected gain."""
