"""The actions: the steps of a scheduling session, one module each."""
