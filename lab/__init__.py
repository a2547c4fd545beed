"""What is never shipped: the embedded AWS, the simulation, models, benches, the demo, and fakes that behave."""
