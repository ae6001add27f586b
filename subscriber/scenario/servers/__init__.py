"""Private database servers: which programs this machine has, and how one is started, guarded and
stopped.
"""
