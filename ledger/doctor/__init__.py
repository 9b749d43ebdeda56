"""The examination of everything that a mirror needs: what is measured, and what is said of it.

Verdicts are pure: a function takes measured values (and the time) and returns results. Measuring is the
probes' work, behind the Protocols of `measurements`; `examination` puts the two together.
"""
