"""Profiles and time lines of mpitrace."""
