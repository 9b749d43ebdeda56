"""One function per command, called by the command line and by the jobs.

Functions take a checked configuration and return values; they print nothing. Whatever may fail without
Spark (configuration, ledger, brokers) is tried before a session is started.
"""
