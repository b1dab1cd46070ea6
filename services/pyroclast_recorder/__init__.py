"""The recorder: watches the API server and stores history and usage in a database. No other service waits for the recorder."""
