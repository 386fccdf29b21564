"""Captures and watches of workloads, and what is made of them, beside what the threads did."""
