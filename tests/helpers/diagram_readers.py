"""Reads drawn diagrams back, and says what they must show, from document 004's table alone."""

import html
import re
import struct
from collections import Counter
from xml.etree import ElementTree

from kbert.graph.reference import document_004

DOCUMENT = document_004()
SVG = "{http://www.w3.org/2000/svg}"
PICTURES = ("png", "svg", "pdf")
FORMATS = (*PICTURES, "dot", "mmd")

# What a diagram of the document must show, from the table alone.


def edges_of(row):
    for connection in filter(None, row.connected_to.split(", ")):
        name, tensor = re.fullmatch(r"(.+)\[\d+\]\[(\d+)\]", connection).groups()
        yield name, row.layer, "table" if tensor == "1" else ""


def shown(rows):
    nodes = {row.layer: (row.type, row.output_shape, row.params) for row in rows}
    return nodes, Counter(edge for row in rows for edge in edges_of(row))


def shown_collapsed():
    """The document's table with block 1 as block n, its input as a box, the heads behind it."""
    block_input = "Encoder-n-Input"
    nodes = {block_input: ("hidden states", "(None, 512, 768)", 0)}
    edges = Counter({("Embedding-Norm", block_input, ""): 1})
    for row in DOCUMENT:
        if re.match(r"Encoder-(?!1-)", row.layer):
            continue
        name = row.layer.replace("Encoder-1-", "Encoder-n-")
        nodes[name] = (row.type, row.output_shape, row.params)
        for source, _, label in edges_of(row):
            source = re.sub(r"Encoder-\d+-", "Encoder-n-", source)
            if (source, name[:10]) == ("Embedding-Norm", "Encoder-n-"):
                source = block_input  # of block 1 alone it is the embeddings' output
            edges[source, name, label] += 1
    return nodes, edges


# What the files show, by readers of their formats.


def facts(lines):
    """(type, shape, parameters) from the lines below a node's name."""
    kind, *parts = " · ".join(lines).split(" · ")
    shape = next(part for part in parts if part[0] in "([")
    params = [part for part in parts if part != shape]
    assert len(params) <= 1, lines
    return kind, shape, int(params[0].replace(",", "")) if params else 0


def words(markup):
    """The lines of an HTML label."""
    text = re.sub(r"<br/?>|</td>", "\n", markup)
    return html.unescape(re.sub(r"<[^>]*>", "", text)).strip().split("\n")


def read_dot(text):
    """By Graphviz's own parser."""
    from pygraphviz import AGraph

    graph = AGraph(string=text)
    nodes = {}
    for node in graph.nodes():
        name, *lines = words(node.attr["label"])
        assert name == node == node.attr["id"]
        nodes[name] = facts(lines)
    edges = Counter((*edge, edge.attr["taillabel"] or "") for edge in graph.edges())
    frames = [(words(part.graph_attr["label"]), set(part.nodes())) for part in graph.subgraphs()]
    return nodes, edges, frames


def texts(group):
    return [text.text for text in group.iter(f"{SVG}text")]


def ends(title):
    """The two nodes of an edge's title, less the sides (":e") at which it leaves and arrives."""
    return [name.removesuffix(":e") for name in title.split("->")]


def read_svg(text):
    root = ElementTree.fromstring(text)
    groups = {kind: [] for kind in ("node", "edge", "cluster")}
    for group in root.iter(f"{SVG}g"):
        kind = group.get("class").split()[0]
        if kind in groups:
            groups[kind].append((group.find(f"{SVG}title").text, group))
    nodes = {}
    for title, group in groups["node"]:
        name, *lines = texts(group)
        assert name == title == group.get("id")
        nodes[name] = facts(lines)
    edges = Counter((*ends(title), *(texts(group) or [""])) for title, group in groups["edge"])
    return nodes, edges, [(texts(group), None) for _, group in groups["cluster"]]


def read_mermaid(text):
    """Line by line; a line that is none of the few kinds below fails."""
    names, nodes, edges, frames, styles, inside = {}, {}, Counter(), [], set(), None
    used = set()
    directive, diagram, *lines = text.splitlines()
    assert re.fullmatch(r"%%\{init: \{.*\}\}%%", directive) and diagram == "flowchart BT"
    for line in lines:
        if match := re.fullmatch(r'(n\d+)\["<b>([^"]*)</b><br/>([^"]*)"\]:::(\w+)', line):
            number, name, rest, style = match.groups()
            names[number] = html.unescape(name)
            nodes[names[number]] = facts(words(rest))
            used.add(style)
            if inside is not None:
                inside.add(names[number])
        elif match := re.fullmatch(r'subgraph (\w+)\["([^"]*)"\]', line):
            inside = set()
            frames.append((match[2].split(" · "), inside))
        elif line == "end":
            inside = None
        elif match := re.fullmatch(r"(n\d+) -->(?:\|(\w+)\|)? (n\d+)", line):
            edges[names[match[1]], names[match[3]], match[2] or ""] += 1
        else:
            match = re.fullmatch(
                r"(classDef|style) (\w+) fill:#\w{6},stroke:#\w{6},color:#\w{6}", line
            )
            assert match, line
            styles.add(match[2])
    assert used <= styles
    return nodes, edges, frames


READERS = {"dot": read_dot, "svg": read_svg, "mmd": read_mermaid}


def png_size(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])
