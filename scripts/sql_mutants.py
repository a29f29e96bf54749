"""Changes of SQL that tests must notice: file, text, text in its place, and the test files that are run (in tests/spark, or folder/name)."""

REDUCE = "compactor/spark/rows/reduce.py"
CARRY = "compactor/spark/rows/resolution.py"
WRITER = "compactor/spark/tables/table_writer.py"
SURVEY = "compactor/spark/rows/survey.py"
KEYLESS = "compactor/spark/rows/keyless.py"
KEYS = "compactor/spark/keys.py"
READER = "compactor/spark/tables/table_reader.py"
DEBEZIUM = "compactor/spark/decode/debezium.py"
VERSIONS = "compactor/spark/history/versions.py"
COMPACT = "compactor/spark/tables/compact.py"
COMMIT = "compactor/spark/history/commit.py"
PARTS = "compactor/spark/history/parts.py"

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
    (REDUCE, "(_was_in IS NOT NULL AND ({newest} = {was} OR ({again})))", "(_was_in IS NOT NULL AND ({newest} = {was}))", "positions flat cases"),
    (REDUCE, "({content}) = _was_content", "({content}) <> _was_content", "positions flat"),
    (REDUCE, 'f"NOT _live AND NOT ({self._event', 'f"_live AND NOT ({self._event', "settings registers"),
    (REDUCE, "WHEN {origin} = {MADE} THEN 2 WHEN {origin} = {MADE_OF_BATCH} THEN 0 ELSE 1", "WHEN {origin} = {MADE} THEN 2 ELSE 1", "registers"),
    (
        REDUCE,
        "WHEN {origin} = {MADE} THEN 2 WHEN {origin} = {MADE_OF_BATCH} THEN 0 ELSE 1",
        "WHEN {origin} = {MADE_OF_BATCH} THEN 0 ELSE 1",
        "debezium registers",
    ),
    (REDUCE, "array_max(filter(_deletes, _d -> _d < _at))", "array_max(_deletes)", "debezium cases registers"),
    (REDUCE, "NOT {_final(name)}.carried AND {same[name]}", "{same[name]}", "registers debezium"),
    (REDUCE, "_tied AND NOT _same THEN 1", "_tied AND _same THEN 1", "flat"),
    (REDUCE, "'_sent' if self.partial else '_content'", "'_content'", "reduce"),
    (REDUCE, '"max_by(_row, _at)._at AS _at"', '"max_by(_row, _newest)._at AS _at"', "settings registers"),
    (REDUCE, "WHEN _gone IS NULL THEN {content} ELSE 0L", "WHEN true THEN {content} ELSE 0L", "flat"),
    (REDUCE, 'own = ["_own AS _own"] if', 'own = [self._own("NULL")] if', "debezium settings wal2json"),
    (REDUCE, "WHEN NOT {self.carried} THEN 3", "WHEN NOT {self.carried} THEN 1", "cases change_event"),
    (CARRY, "CAST(NULL AS BOOLEAN) AS known", "true AS known", "cases registers debezium"),
    # what key changes carry, and what a run compares
    (CARRY, "if states.where(HAS_NEW_KEY).isEmpty():", "if not states.where(HAS_NEW_KEY).isEmpty():", "debezium cases"),
    (CARRY, "array_max(filter(_deletes, _d -> _d < _lived))", "array_max(_deletes)", "debezium"),
    (CARRY, 'list(reducer.schema.key), "left_anti"))', 'list(reducer.schema.key), "left_semi"))', "debezium cases"),
    (READER, 'conditions += ["_gone IS NOT NULL"] if soft else []', "conditions += []", "settings"),
    (READER, "if not at_or_below(segment.position_max, barrier)", "if at_or_below(segment.position_max, barrier)", "flat dms settings"),
    (READER, 'keys, "left_anti").unionByName(delta if', 'keys, "left_semi").unionByName(delta if', "compaction rebuild"),
    (KEYS, "_left <> {key} THEN _left END", "_left = {key} THEN _left END", "debezium"),
    (READER, 'return rows.where(f"_version > {through[0]}")', 'return rows.where(f"_version >= {through[0]}")', "compaction"),
    (READER, "(LIVE, DELETED) if soft else (LIVE,)", "(LIVE, DELETED)", "compaction settings"),
    (READER, 'delta if soft else delta.where("_gone IS NULL")', "delta", "compaction settings"),
    # the folder of a row, and what the survey counts
    (WRITER, "CASE WHEN _gone IS NULL THEN '{LIVE}'", "CASE WHEN _gone IS NOT NULL THEN '{LIVE}'", "flat"),
    (
        WRITER,
        "sum(count for hidden, count in by_file if hidden)",
        "sum(count for hidden, count in by_file if not hidden)",
        "flat compaction settings",
    ),
    (SURVEY, "min(_position) AS first", "max(_position) AS first", "flat positions"),
    (SURVEY, "max(_position) AS last", "min(_position) AS last", "flat positions"),
    (SURVEY, '_sum(of["d"], "n")', '_sum(of["d"], "invalid")', "flat settings cases"),
    # tables without key
    (KEYLESS, "array('{REMOVAL}', 'c')", "array('c')", "debezium wal2json"),
    (KEYLESS, "_kind = '{LIVE}' AND _n <= _removals - _rest", "_kind = '{LIVE}' AND _n < _removals - _rest", "debezium dms"),
    (KEYLESS, "_kind = '{WAITING}' AND _n > _rest", "_kind = '{WAITING}' AND _n >= _rest", "debezium dms wal2json"),
    # what events say
    (DEBEZIUM, "WHEN _m.op IN ('c', 'u', 'r') AND _m.after IS NOT NULL", "WHEN _m.op IN ('c', 'u') AND _m.after IS NOT NULL", "debezium cases"),
    (DEBEZIUM, 'row = "coalesce(_m.after, _m.before)"', 'row = "_m.after"', "debezium cases debezium_types"),
    # histories
    (VERSIONS, "(__before IN ('d', 't')", "(__before IN ('d')", "history"),
    (VERSIONS, '"__is_deleted": "coalesce(__next.o <> \'u\', false)"', '"__is_deleted": "coalesce(__next.o = \'u\', false)"', "history"),
    (VERSIONS, "ORDER BY _position, __origin) AS __newer", "ORDER BY _position, __origin DESC) AS __newer", "history"),
    (VERSIONS, "WHERE {self.event('__p')} >= __first", "WHERE {self.event('__p')} > __first", "history"),
    (VERSIONS, "HAVING count(DISTINCT {key}) = 1", "HAVING count(DISTINCT {key}) >= 1", "history wal2json"),
    (VERSIONS, "__origin DESC, _position)", "__origin, _position)", "history"),
    (VERSIONS, "max(CASE WHEN __frozen THEN __begun_us ELSE __time_us END)", "max(__time_us)", "history"),
    (VERSIONS, "max_by(__v, __at) AS __taken", "min_by(__v, __at) AS __taken", "history"),
    (COMMIT, "(__end_position IS NULL OR __end_position > {at})", "__end_position IS NULL", "history"),
    (COMMIT, 'where(f"__first <= {versions.event()}")', 'where(f"__first < {versions.event()}")', "history"),
    (COMMIT, "FROM {{made}} WHERE __same)", "FROM {{made}})", "history"),
    (COMMIT, "__origin = {OPEN} AND __same", "__origin = {OPEN}", "history"),
    (COMMIT, 'others += f" UNION ALL SELECT {keys} FROM {{newer}}"', 'others += ""', "history"),
    (COMMIT, "coalesce(min(CASE WHEN {after} THEN __time END), max(__time)) AS first", "max(__time) AS first", "history"),
    (PARTS, 'f" LEFT ANTI JOIN {{newer}} USING ({key})" if stored.delta', '"" if stored.delta', "history"),
    (PARTS, "{self.versions.event('__end_position')} >= __first", "{self.versions.event('__end_position')} > __first", "history"),
    (PARTS, 'f"count_if({which})"', 'f"count_if(NOT ({which}))"', "history"),
    (PARTS, "max(CASE WHEN {which} THEN coalesce(__end_position, _position) END)", "max(CASE WHEN {which} THEN _position END)", "history"),
    # compaction
    (COMPACT, "{{base}} LEFT ANTI JOIN {{delta}}", "{{base}} LEFT SEMI JOIN {{delta}}", "compaction"),
    (COMPACT, "' WHERE _gone IS NOT NULL'", "' WHERE _gone IS NULL'", "settings registers compaction"),
    (COMPACT, "'' if partial else ' WHERE", "' WHERE", "settings registers"),
    (COMPACT, "IN ({', '.join(map(str, at))})", "NOT IN ({', '.join(map(str, at))})", "compaction"),
    (COMPACT, "_version <= {purge_through})", "_version < {purge_through})", "compaction positions"),
    (COMPACT, '{"last": f"max(CASE WHEN {old} THEN', '{"last": f"min(CASE WHEN {old} THEN', "compaction positions"),
    (COMPACT, "({old} AND NOT {keyless.is_waiting()})", "({old})", "debezium dms wal2json"),
    # what a file leaves out, and what a deletion vector hides
    (WRITER, "*([] if self.tombstones else [GONE])", "GONE", "flat"),
    (WRITER, "*([] if self.partial else [OWN])", "OWN", "settings registers"),
    (WRITER, "([] if self.partial or self.tombstones else [MOVED])", "([] if self.tombstones else [MOVED])", "registers"),
    (READER, 'changed, key, "left_semi"', 'changed, key, "left_anti"', "native/spark"),
]
