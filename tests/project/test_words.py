"""The words of kbert's names, by the measure in ../shared/tools/words."""

import re
import subprocess
import sys

import pytest
from helpers.sizes import ROOT, SHARED

WORDS = SHARED / "tools" / "words"


@pytest.mark.full
def test_names_of_functions_and_docstrings_are_plain():
    """Few names or docstrings begin oddly, few names hold a word that the glossary replaces."""
    if not WORDS.is_file():
        pytest.skip("no ../shared beside the project: no measure of words")
    command = [sys.executable, str(WORDS), str(ROOT / "kbert")]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    participles, prepositions, fragments = map(float, re.findall(r"([\d.]+)% ", report))
    flagged = int(re.search(r"flagged word: (\d+)", report)[1])
    assert participles <= 4 and prepositions <= 3 and fragments <= 3 and flagged <= 150, report
