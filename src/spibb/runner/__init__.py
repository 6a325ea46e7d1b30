"""Run many independent jobs: a plan becomes jobs, jobs become parts of a store, and it resumes."""
