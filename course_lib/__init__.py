"""The course's model library: the Transformer as linear algebra, one concept per file.

Rows are vectors (``x @ W``) and boolean masks say True = may attend, everywhere. Shapes are written in these letters:
``B`` batch, ``N`` queries, ``M`` keys, ``h`` heads, ``d_model``, ``d_k``, ``d_v``, ``d_ff``, ``V`` vocabulary.
Nothing is imported here, so that ``import course_lib`` costs nothing: import the file that holds the concept, e.g.
``from course_lib.attention import scaled_dot_product_attention``.
"""
