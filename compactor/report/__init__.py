"""The report: one HTML page about all tables, made from Timelines. It has its style, its pictures (SVG) and 20 lines of script inside, and needs no
server. `page` puts it together, `detail` writes the part of a table, `charts` draws, `html` escapes.
"""
