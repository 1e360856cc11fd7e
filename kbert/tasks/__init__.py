"""What one does with a loaded BERT: texts in, answers out.

Every function takes one text, and gives one result, or a list of texts, and gives a list.
"""
