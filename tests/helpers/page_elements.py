"""Reads the elements of an HTML page."""

from html.parser import HTMLParser


class Elements(HTMLParser):
    """The elements of a page in `found`, as tags and attributes, and all of its text in `text`."""

    def __init__(self, page: str):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data
