"""The controllers of JobFlow and JobTemplate."""
