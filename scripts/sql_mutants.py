"""Changes of SQL that tests must notice: file, text, text in its place, and the files of tests/spark that are run."""

RESOLVE = "compactor/spark/rows/precedence.py"
RESOLUTION = "compactor/spark/rows/resolution.py"
KEYLESS = "compactor/spark/rows/keyless.py"
READER = "compactor/spark/tables/table_reader.py"
DEBEZIUM = "compactor/spark/decode/debezium.py"
VERSIONS = "compactor/spark/history/versions.py"
FLAT = "compactor/spark/decode/flat.py"

MUTANTS = [
    # which state of a key is its row
    (RESOLVE, "_op = 'f', _position DESC, {_STORED_FIRST}", "_op = 'f', _position, {_STORED_FIRST}", "flat cases"),
    (RESOLVE, "_op = 'f', _position DESC, {_STORED_FIRST}", "_op = 'f', _position DESC", "rewritten flat cases debezium"),
    (RESOLVE, "WHEN {DELTA} THEN 0 WHEN {BASE} THEN 1", "WHEN {DELTA} THEN 1 WHEN {BASE} THEN 0", "debezium cases settings"),
    (RESOLVE, "CASE WHEN _op IN ('d', 'x') THEN 'd' ELSE 'u' END", "CASE WHEN _op IN ('d') THEN 'd' ELSE 'u' END", "debezium dms wal2json"),
    (RESOLVE, "_op = 'c' AND size(_missing) > 0 THEN coalesce", "_op = 'c' AND size(_missing) > 1 THEN coalesce", "debezium"),
    (RESOLVE, 'changes.where("_from IS NOT NULL")', 'changes.where("_from IS NULL")', "cases debezium"),
    (RESOLVE, "_before_it = _same) OR {stored_twin}", "_before_it = _same)", "positions flat cases"),
    (
        RESOLVE,
        'late = "false" if self.empty else f"_head_origin >= {DELTA}"',
        'late = "false" if self.empty else f"_head_origin > {DELTA}"',
        "flat settings",
    ),
    (RESOLVE, "_before_it.h <> _same.h AND NOT {stored_twin}", "_before_it.h = _same.h AND NOT {stored_twin}", "flat"),
    (RESOLVE, "_rank = coalesce(_made.r, 1) AS _head", "_rank = 1 AS _head", "positions cases flat"),
    (RESOLVE, "coalesce(_hidden.s < {DELTA}, _older IS NOT NULL)", "coalesce(_hidden.s >= {DELTA}, _older IS NOT NULL)", "settings registers"),
    (RESOLVE, 'self._lived("_position < _head_position")', 'self._lived("_position <= _head_position")', "debezium cases registers"),
    (RESOLVE, "max(CASE WHEN _op = 'd' AND _position < _life THEN _position END)", "max(CASE WHEN _op = 'd' THEN _position END)", "debezium cases"),
    # what a run compares, and what a truncate ends
    (RESOLUTION, 'gone = f"_position <= {position', 'gone = f"_position < {position', "flat cases wal2json"),
    (RESOLUTION, "if states.where(MOVED).isEmpty():", "if not states.where(MOVED).isEmpty():", "debezium cases"),
    (
        RESOLUTION,
        'list(resolver.schema.key), "left_anti"))\n        result',
        'list(resolver.schema.key), "left_semi"))\n        result',
        "debezium cases",
    ),
    (READER, "conditions += [\"_op = 'd'\"] if soft else []", "conditions += []", "settings"),
    (READER, "if not at_or_below(segment.position_max, barrier)", "if at_or_below(segment.position_max, barrier)", "flat dms settings"),
    (READER, 'keys, "left_anti").unionByName(delta)', 'keys, "left_semi").unionByName(delta)', "compaction rebuild"),
    (READER, "_left <> {key} THEN _left END", "_left = {key} THEN _left END", "debezium"),
    (READER, 'return rows.where(f"_version > {through[0]}")', 'return rows.where(f"_version >= {through[0]}")', "compaction"),
    (READER, "rows if soft else rows.where(\"_op = 'u'\")", "rows if not soft else rows.where(\"_op = 'u'\")", "compaction settings"),
    # tables without key
    (KEYLESS, "array('{REMOVAL}', 'c')", "array('c')", "debezium wal2json"),
    (KEYLESS, "(_kind = 'l' AND _n <= _removals)", "(_kind = 'l' AND _n < _removals)", "debezium dms"),
    (KEYLESS, "(_kind = 'w' AND _n <= _rows)", "(_kind = 'w' AND _n <= _rows + 1)", "debezium dms wal2json"),
    # what events say
    (DEBEZIUM, "WHEN {op} IN ('c', 'u', 'r') AND", "WHEN {op} IN ('c', 'u') AND", "debezium cases"),
    (DEBEZIUM, 'row = "coalesce(_m.after, _m.before)"', 'row = "_m.after"', "debezium cases debezium_types"),
    (FLAT, "CASE WHEN NOT {empty} AND _keys IS NULL THEN 'is not a JSON object' END", "CASE WHEN {empty} THEN 'is not a JSON object' END", "flat"),
    # histories
    (VERSIONS, "_op = 'u' AND __before IN ('d', 't')", "_op = 'u' AND __before IN ('d')", "history"),
    (VERSIONS, '"__is_deleted": "coalesce(__next.o <> \'u\', false)"', '"__is_deleted": "coalesce(__next.o = \'u\', false)"', "history"),
]
