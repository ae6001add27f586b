"""CREATE, ALTER and DROP SUBSCRIPTION: grammar, catalog and the commands themselves."""
