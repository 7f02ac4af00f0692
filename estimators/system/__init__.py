"""What touches the machine: files, processes, input from strangers, imports.

Belongs here: ``files`` (whole or not at all, locks), ``processes`` (workers that end with their parent), ``untrusted``
(JSON and archives from anybody), ``console`` (what any terminal can show), ``lazy`` (fronts of packages that load at first
use), ``moved`` (where modules were before), ``outlines`` (what one source file says), ``outside`` (the user's own modules by
name), ``sources`` (what code reaches, and its fingerprint). Does not belong here: numbers (``numerics``), what the files
mean.
"""
