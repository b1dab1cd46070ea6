"""Rules of webhooks, applied in process to what our own controllers create: a call costs the API server as much as the write.

The webhooks leave out what an account of ours creates and names its writer for (the option `fieldManager`): it is named only once
the rules have been applied. So what a release creates that does not apply them goes through the webhooks as ever.
"""
