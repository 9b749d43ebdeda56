"""Configurations of MirrorMaker 2: read as it reads them, and said in this program's own keys.

A file goes through four stages: entries as they are written (`reading`), what MirrorMaker makes of them
(`configuration`), what they come to here (`translating`), and the text of a configuration (`writing`). Nothing here
opens a connection; what clusters have is given to `comparing`.
"""
