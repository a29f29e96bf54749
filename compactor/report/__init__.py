"""The report: one HTML page about all tables, made from Timelines by Jinja2 (the extra `report`). It has its style, its pictures (SVG) and a short
script inside, and needs no server. `page` gathers what the templates (`*.j2`) write, `panels` and `charts` draw.
"""
