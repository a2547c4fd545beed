"""CreateFleet of type ``instant``: reading, planning and allocating a request."""
