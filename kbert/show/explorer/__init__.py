"""The graph as one interactive page: the figure, every layer's panel, every count made again.

`explore.py` is the public function; `page/` holds what is the browser's. The command line may
import it; nothing below does.
"""
