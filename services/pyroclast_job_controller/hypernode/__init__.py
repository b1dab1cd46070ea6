"""The controllers of HyperNodes: their status, and their discovery."""
