"""Changes of SQL that tests must notice: file, text, text in its place, and the files of tests/spark that are run."""

REDUCE = "compactor/spark/rows/reduce.py"
CARRY = "compactor/spark/rows/carry.py"
WRITER = "compactor/spark/tables/table_writer.py"
SURVEY = "compactor/spark/rows/survey.py"
KEYLESS = "compactor/spark/rows/keyless.py"
READER = "compactor/spark/tables/table_reader.py"
DEBEZIUM = "compactor/spark/decode/debezium.py"
VERSIONS = "compactor/spark/history/versions.py"
FLAT = "compactor/spark/decode/flat.py"

MUTANTS = [
    # which state of a key is its row
    (REDUCE, "max_by(_row, {'_newest' if self.keyless else '_at'})", "min_by(_row, {'_newest' if self.keyless else '_at'})", "flat cases"),
    (REDUCE, "WHEN _op NOT IN ('d', 'x') THEN _position END AS _at", "WHEN _op NOT IN ('d') THEN _position END AS _at", "debezium wal2json"),
    (REDUCE, "WHEN _op IN ('d', 'x') THEN _position END AS _gone", "WHEN _op IN ('d') THEN _position END AS _gone", "debezium dms wal2json"),
    (REDUCE, "_op = 'c' AND size(_missing) > 0 THEN coalesce", "_op = 'c' AND size(_missing) > 1 THEN coalesce", "debezium"),
    (REDUCE, "WHERE _from IS NOT NULL", "WHERE _from IS NULL", "cases debezium"),
    (REDUCE, "(_gone IS NULL OR coalesce(_at > _gone, false))", "(_gone IS NULL OR coalesce(_at < _gone, false))", "flat cases"),
    (REDUCE, "WHERE NOT coalesce(_newest <= _bound, false)", "WHERE NOT coalesce(_newest < _bound, false)", "flat cases wal2json"),
    # what a state adds to the row that is stored
    (REDUCE, "(_stored AND ({newest} = {was} OR ({again})))", "(_stored AND ({newest} = {was}))", "positions flat cases"),
    (REDUCE, "({content}) = _was_content", "({content}) <> _was_content", "positions flat"),
    (REDUCE, 'f"NOT _live AND NOT ({self._event', 'f"_live AND NOT ({self._event', "settings registers"),
    (REDUCE, "WHEN _origin = {MADE} THEN 2 WHEN _origin = {MADE_OF_BATCH} THEN 0 ELSE 1", "WHEN _origin = {MADE} THEN 2 ELSE 1", "registers"),
    (
        REDUCE,
        "WHEN _origin = {MADE} THEN 2 WHEN _origin = {MADE_OF_BATCH} THEN 0 ELSE 1",
        "WHEN _origin = {MADE_OF_BATCH} THEN 0 ELSE 1",
        "debezium registers",
    ),
    (REDUCE, "array_max(filter(_deletes, _d -> _d < _at))", "array_max(_deletes)", "debezium cases registers"),
    (REDUCE, "NOT {_final(name)}.own AND {same[name]}", "{same[name]}", "registers debezium"),
    (REDUCE, "_tied AND NOT _same THEN 1", "_tied AND _same THEN 1", "flat"),
    (REDUCE, "{own_entry} IS NULL THEN 3", "{own_entry} IS NULL THEN 1", "change_event"),
    (CARRY, "{entry} IS NULL AS own", "{entry} IS NOT NULL AS own", "change_event"),
    # what key changes carry, and what a run compares
    (CARRY, "if states.where(HAS_NEW_KEY).isEmpty():", "if not states.where(HAS_NEW_KEY).isEmpty():", "debezium cases"),
    (CARRY, "array_max(filter(_deletes, _d -> _d < _lived))", "array_max(_deletes)", "debezium"),
    (CARRY, 'list(reducer.schema.key), "left_anti"))', 'list(reducer.schema.key), "left_semi"))', "debezium cases"),
    (READER, 'conditions += ["_gone IS NOT NULL"] if soft else []', "conditions += []", "settings"),
    (READER, "if not at_or_below(segment.position_max, barrier)", "if at_or_below(segment.position_max, barrier)", "flat dms settings"),
    (READER, 'keys, "left_anti").unionByName(delta if', 'keys, "left_semi").unionByName(delta if', "compaction rebuild"),
    (READER, "_left <> {key} THEN _left END", "_left = {key} THEN _left END", "debezium"),
    (READER, 'return rows.where(f"_version > {through[0]}")', 'return rows.where(f"_version >= {through[0]}")', "compaction"),
    (READER, "(LIVE, DELETED) if soft else (LIVE,)", "(LIVE, DELETED)", "compaction settings"),
    (READER, 'delta if soft else delta.where("_gone IS NULL")', "delta", "compaction settings"),
    # the folder of a row, and what the survey counts
    (WRITER, "CASE WHEN _gone IS NULL THEN '{LIVE}'", "CASE WHEN _gone IS NOT NULL THEN '{LIVE}'", "flat"),
    (WRITER, '"tombstones": "count_if(_gone IS NOT NULL)"', '"tombstones": "0"', "flat compaction settings"),
    (SURVEY, "max(CASE WHEN _op <> 't' THEN _position END) AS last", "min(CASE WHEN _op <> 't' THEN _position END) AS last", "flat positions"),
    (SURVEY, "count_if(_op = 'd') AS deletes", "0L AS deletes", "flat settings cases"),
    (SURVEY, "min(CASE WHEN _op <> 't' THEN _position END) AS first", "max(CASE WHEN _op <> 't' THEN _position END) AS first", "flat positions"),
    # tables without key
    (KEYLESS, "array('{REMOVAL}', 'c')", "array('c')", "debezium wal2json"),
    (KEYLESS, "(_kind = 'l' AND _n <= _removals)", "(_kind = 'l' AND _n < _removals)", "debezium dms"),
    (KEYLESS, "(_kind = 'w' AND _n <= _rows)", "(_kind = 'w' AND _n <= _rows + 1)", "debezium dms wal2json"),
    # what events say
    (DEBEZIUM, "WHEN {op} IN ('c', 'u', 'r') AND", "WHEN {op} IN ('c', 'u') AND", "debezium cases"),
    (DEBEZIUM, 'row = "coalesce(_m.after, _m.before)"', 'row = "_m.after"', "debezium cases debezium_types"),
    (FLAT, "CASE WHEN NOT {empty} AND _keys IS NULL THEN 'is not a JSON object' END", "CASE WHEN {empty} THEN 'is not a JSON object' END", "flat"),
    # histories
    (VERSIONS, "(__before IN ('d', 't')", "(__before IN ('d')", "history"),
    (VERSIONS, '"__is_deleted": "coalesce(__next.o <> \'u\', false)"', '"__is_deleted": "coalesce(__next.o = \'u\', false)"', "history"),
]
