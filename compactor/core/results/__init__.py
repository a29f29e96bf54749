"""Values that the engine and the flows return: what a batch contains (`batch`), what a run did (`record`), what a vacuum, a rebuild or an erase
did (`reports`), what checks found (`checks`), a table's past and what needs a person (`timeline`), messages to people (`notice`), and numbers for
alarms and dashboards (`measures`).
"""
