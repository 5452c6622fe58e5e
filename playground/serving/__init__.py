"""Many users on one machine: batching, limits, the API, the GPU of a shared Space, health."""
