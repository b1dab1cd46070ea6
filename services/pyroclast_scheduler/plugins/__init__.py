"""The plugins: the policies of a scheduling session, one module or package each."""
