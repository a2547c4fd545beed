"""The optional last mile with HiGHS: patterns combined by a linear program, and a certificate.

Imported only when a policy asks for a certificate or units are short: HiGHS and NumPy cost a third of a second to load.
"""
