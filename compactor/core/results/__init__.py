"""Values that the engine and the flows return: what a batch contains (`batch`), what a run did (`record`), what a vacuum or a rebuild did
(`reports`), what checks found (`checks`), messages to people (`notice`), and numbers for alarms and dashboards (`measures`).
"""
