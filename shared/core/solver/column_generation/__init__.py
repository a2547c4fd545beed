"""The optional last mile with HiGHS: a certificate, and patterns combined by a linear program.

Imported only when a policy asks for a certificate: HiGHS and NumPy cost a third of a second to load.
"""
