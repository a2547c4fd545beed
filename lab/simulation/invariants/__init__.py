"""What must hold after every step: ``base`` says what an invariant is, ``watcher`` has them all."""
