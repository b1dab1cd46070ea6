"""The controller of JobFlow."""
