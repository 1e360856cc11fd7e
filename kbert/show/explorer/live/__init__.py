"""A sentence through the page's model: recordings, a server, and how far packed weights are off.

`page/live/client.js` describes what Python and JavaScript agree on: a request, and a trace with
every tensor of the forward pass by its name.
"""
