"""The "Submarine (Python)" kernel."""
