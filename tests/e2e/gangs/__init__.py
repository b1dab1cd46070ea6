"""All pods of a gang or none, under faults and with places before pods."""
