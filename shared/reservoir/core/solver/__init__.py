"""How ``reservoir.core.scheduler.solve`` decides, in small parts; docs/scheduler.md is the map."""
