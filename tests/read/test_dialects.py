"""Statements that mean something else in DuckDB and in Spark: `--engine auto` answers as Spark, whichever of the two runs them.

    python -m pytest tests/read/test_dialects.py -m ""

runs every statement of EXACT on both engines and compares columns and rows.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from compactor.app import App
from compactor.app.local_sql import LocalSql
from compactor.app.query import Rows
from compactor.core.model.errors import CompactorError, Refused
from tests.parts.one_spark import app_on_one_spark

__all__ = ["app_on_one_spark"]

UTC = dt.timezone.utc
NAN, INF = float("nan"), float("inf")
PEOPLE = pyarrow.table(
    {
        "id": pyarrow.array([1, 2, 3, 4, 5, 6, 7, 8], "int64"),
        "seq": pyarrow.array(range(8), "int64"),
        "name": ["Ann", None, "Zoë Å", "O'Brien", "", "a%b_c", " ß🙂x ", "ann"],
        "age": pyarrow.array([30, 41, None, 7, -7, 41, 2147483647, 0], "int32"),
        "small": pyarrow.array([1, -2, 3, None, 127, 127, 5, 0], "int16"),
        "score": [1.5, 0.1, -0.0, NAN, INF, 1e10, 1e-5, None],
        "ratio": pyarrow.array([0.1, 2.5, -0.0, None, 1e7, 1.5e-4, 3.0, 0.5], "float32"),
        "balance": pyarrow.array([*map(Decimal, "12.50 -0.01 2.345 0 99999999 1.005 -2.5".split()), None], pyarrow.decimal128(12, 3)),
        "born": [dt.date(1990, 2, 7), None, dt.date(1500, 3, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31), *[dt.date(2000, 1, day) for day in (1, 2, 31)]],
        "seen": pyarrow.array(
            [dt.datetime(2026, 1, 1, hour, 30, 5, hour, tzinfo=UTC) for hour in range(6)] + [dt.datetime(1, 1, 1, tzinfo=UTC), None],
            pyarrow.timestamp("us", "UTC"),
        ),
        "ok": [True, False, None, True, False, True, None, False],
        "tags": pyarrow.array([["a", "b"], [], None, ["c", None], ["x"], ["y"], ["z"], ["w"]], pyarrow.list_(pyarrow.string())),
        "place": pyarrow.array([{"city": "Oslo", "zip": 1}, None, *({"city": None, "zip": at} for at in range(6))],
                               pyarrow.struct([("city", pyarrow.string()), ("zip", pyarrow.int32())])),
        "raw": pyarrow.array([b"\x00\xff", b"", None, b"a", b"b", b"c", b"d", b"e"], "binary"),
    }
)  # fmt: skip
ORDERS = pyarrow.table(
    {
        "id": pyarrow.array(range(1, 11), "int64"),
        "seq": pyarrow.array(range(10), "int64"),
        "person": pyarrow.array([1, 1, 2, 3, 3, 3, None, 9, 8, 8], "int64"),
        "amount": pyarrow.array([Decimal(at) / 4 if at != 4 else None for at in range(10)], pyarrow.decimal128(10, 2)),
        "qty": pyarrow.array([Decimal(1)] * 10, pyarrow.decimal128(10, 0)),
        "big": pyarrow.array([*map(Decimal, range(10))], pyarrow.decimal128(38, 0)),
        "kind": ["new", "old", None, "new", "new", "", "old", "new", "old", "new"],
        "day": [dt.date(2026, 1, 1 + at // 3) for at in range(10)],
    }
)
TABLES = {"people": PEOPLE, "orders": ORDERS, "order": ORDERS[:1]}

EXACT = """
    select * from people
    select id, name from people order by id
    select ID, Name from people
    select p.id, p.* from people as p where p.id < 3
    select school.people.id from school.people
    select count(*) from people
    select COUNT(*), count(name), count(distinct age), count(null) from people
    select sum(age), min(age), max(age) from people
    select sum(small) as s, sum(id) as i from people
    select min(name), max(name), min(born), max(born), min(seen), max(seen), min(ok), max(ok) from people
    select min(balance), max(balance), sum(balance), count(balance) from people
    select sum(amount) as total, max(amount) as most from orders
    select sum(distinct age) as s, count(distinct ok) as c from people where age < 100
    select kind, count(*) as n from orders group by kind order by kind
    select kind, count(*) as n from orders group by 1 order by 2 desc, 1
    select kind as k, sum(amount) as s from orders group by k order by s desc
    select kind from orders group by kind having count(*) > 1 order by kind desc
    select person, kind, count(*) as n from orders group by person, kind order by n, person, kind
    select ratio from people order by ratio desc, id
    select ok, count(*) as n from people group by ok order by ok
    select age from people order by age
    select age from people order by age desc
    select age from people order by age nulls last
    select age from people order by age desc nulls first, id
    select name from people order by name
    select name from people order by name desc
    select score from people order by score
    select born from people order by born
    select seen from people order by seen desc
    select id from people order by balance, id
    select id from people order by -id limit 3
    select id from people order by id limit 2 offset 3
    select distinct age from people order by age
    select distinct kind, day from orders
    select * from people where name = 'Ann'
    select id from people where name <> 'Ann'
    select id from people where name = 'O''Brien'
    select id from people where name = ''
    select id from people where name > 'a'
    select id from people where name >= 'Zo' and name < 'Zp'
    select id from people where name like 'A%'
    select id from people where name like '%_b%'
    select id from people where name like '_nn'
    select id from people where name not like '%n%'
    select id from people where name like '% ß_x%'
    select id from people where name like ''
    select id from people where age in (30, 41, null)
    select id from people where age not in (30, 41)
    select id from people where age not in (30, null)
    select id from people where name in ('Ann', 'ann')
    select id from people where age between 0 and 41
    select id from people where age not between 0 and 41
    select id from people where balance between 1 and 2.5
    select id from people where balance > 1.004
    select id from people where balance = 12.5
    select id from people where balance <= 0
    select id from people where score > 0.05
    select id from people where score = score
    select id from people where score >= 1e10
    select id from people where score = 0
    select id from people where age > 7.5
    select id from people where age is null
    select id from people where not (age > 10)
    select id from people where age > 10 or name is null
    select id from people where age > 10 and not ok
    select id from people where ok
    select id from people where ok = false
    select id from people where ok is null
    select id from people where age is distinct from 41
    select id from people where age is not distinct from null
    select id from people where born = '2024-02-29'
    select id from people where born >= date '2000-01-01'
    select id from people where born < '1990-02-08'
    select id from people where born in ('2000-01-01', '2000-01-31')
    select id from people where born between '2000-01-01' and '2000-01-31'
    select id from people where seen > '2026-01-01 02:00:00'
    select id from people where seen < '2026-01-01'
    select small * 1000 as a, small - 40000 as b, 2 * small * small * small as c from people
    select id + 1 as a, id - 10 as b, id * 3 as c, -id as d from people
    select age + small as s, small * 2 as t from people where age < 100
    select score, ratio from people
    select balance, amount from people join orders on people.id = person
    select tags, place, raw from people
    select name, tags from people where tags is not null
    select count(*) as n from people where place is null
    select p.id, o.amount from people p join orders o on o.person = p.id
    select p.id, o.amount from people p left join orders o on o.person = p.id and o.kind = 'new'
    select p.id, o.id as o from people p right join orders o on o.person = p.id
    select p.id, o.id as o from people p full outer join orders o on o.person = p.id
    select a.id, b.id as other from orders a, orders b where a.person = b.person and a.id < b.id
    select count(*) as n from people cross join orders
    select * from people p join orders o on p.id = o.person
    select 1 as a, 'x' as b, 1.50 as c, 1e3 as d, true as e, null as f
    select 1, 'x'
    select 'it''s' as s, '"' as q, 'ü🙂' as u
    select 1e7 as a, 1234567.0e0 as b, 1e-3 as c, 9.99e-4 as d, 123456789.125e0 as e, 1e22 as f, 1.5e300 as g
    select id from people where seen in ('2026-01-01', '2026-01-01 01:30:05.000001')
    select id, id from people
    select count(*) from people where name = null
    select null = null as a, 1 = null as b, null and false as c, null or true as d
    select max(age) - min(age) as d, sum(id) * 2 as t from people where age < 100
    select 1. as a
    select id from people where balance > 1e0
    select id from people where id = 1.0 or id in (2, 3.0)
    select name, count(*) as n from people group by name order by count(*) desc, name
    select kind, sum(amount) as s from orders group by kind having sum(amount) > 1 order by s
    select distinct kind from orders order by kind desc
    select id from people limit 0
    select id from people order by id offset 6
    select id as x, x + 1 as y from people
    select p.name n from people p
    select id from people where name like 'a.c'
    select id from people where name like '_____'
    select id from people where name like '%''%'
    select id from people where name like '%[%' or name like '%(%' or name like '%$%' or name like '%^%'
    select count(score) as c, count(ratio) as r, count(distinct balance) as b from people
    select score = 0 as a, score > 1 as b, score is null as c, score <> score as d from people
    select sum(balance) as s, min(balance) as m from people where balance is null
    select sum(age) as s, count(*) as n, max(name) as m from people where id > 100
    select kind, sum(amount) as s from orders where id > 100 group by kind
    select ok and age > 1 as a, ok or age > 1 as b, not ok as c from people
    select o.day, count(*) as n from orders o group by o.day order by o.day desc
    select day, kind, max(amount) as m from orders group by day, kind order by m desc, day, kind
    select p.name, sum(o.amount) as total from people p left join orders o on o.person = p.id group by p.name order by total desc, p.name
    select count(*) as n from people p join orders o on p.id = o.person and o.amount > p.id
    select date '2024-02-29' as d
    select born from people where born > date '9999-01-01' or born < date '1582-10-15'
    select min(seen) as a, max(seen) as b from people where seen < '2026-01-01 00:00:00'
    select true and false as a, not true as b
    select 10000000000 as a, -1 as b, 99999999999.5 as c
    select 'Abc' = 'abc' as a, 'a ' = 'a' as b, '' = ' ' as c, 'a' < 'B' as d
    select id between 2 and 4 as b from people
    select id from people where id between null and 3
    select .5 as a, -.25 as b, 0.00 as c
    select id /* all */ from people -- of them
    select id from orders where amount = big or big in (0.5, 4) or big between 6.5 and 7.5
    select p.`name` as `a b`, '`' as tick from `people` p where `id` > 1
    select tags, id from people order by 2 desc
    select name, sum(amount) as s from people join orders on person = people.id where amount > 0 and kind in ('new', 'old') group by name order by s desc limit 3
"""
"""Statements that auto gives to DuckDB, one a line."""

SPARK = {
    "double quotes": ['select "name" from people', 'select id from people where name = "Ann"', 'select id as "my id" from people'],
    "a backslash in a text": [r"select 'a\nb' as s", r"select id from people where name like '%\_b%'", r"select id from people where name like 'a\%%'"],
    "two texts side by side": ["select 'a' 'b' as s"],
    "the number 1L": ["select 1L as n", "select id from people where id = 1L"],
    "the number 0x1F": ["select 0x1F as n"],
    "syntax error": [
        "select id, tag from people lateral view explode(tags) t as tag",
        "select * from order",
        "select * from group",
        "select id from people where name rlike 'A.*'",
        "select 7 div 2 as n",
        "select id from people distribute by id",
        "select p.id from people p left semi join orders o on o.person = p.id",
    ],
    "does not exist": ["select date_format(seen, 'yyyy-MM') as m from people", "select nvl(name, 'none') as n from people"],
    "sample": ["select * from people tablesample (50 percent)"],
    "Overflow": ["select 2147483647 + 1 as a"],
    "out of range": ["select sum(9223372036854775807) as s from orders", "select id from people order by 3"],
    "`/`": ["select id / age as a from people"],
    "`%`": ["select 5 % 0 as a"],
    "`+`": ["select balance + 1 as b from people", "select born + 1 as d from people"],
    "`-`": ["select born - date '2000-01-01' as d from people"],
    "`*`": ["select score * 2 as s from people"],
    "`sum` of double": ["select sum(score) as s from people"],
    "`min` of": ["select min(score) as s from people", "select min(tags) as t from people"],
    "`count` of": ["select count(distinct score) as n from people", "select count(tags) as n from people"],
    "`avg`": ["select avg(amount) as a from orders", "select avg(age) as a from people"],
    "`round`": ["select round(score, 1) as r from people"],
    "`upper`": ["select upper(name) as u from people"],
    "`substr`": ["select substr(name, 2) as s from people"],
    "`year`": ["select year(born) as y, count(*) as n from people group by 1"],
    "`date_trunc`": ["select date_trunc('month', seen) as m from people"],
    "`date_part`": ["select extract(year from born) as y from people"],
    "`to_days`": ["select seen + interval 1 day as d from people"],
    "`||`": ["select name || '!' as s from people"],
    "`~~`": ["select id from people where name like name"],
    "`like_escape`": ["select id from people where name like '%!_b%' escape '!'"],
    "`~~*`": ["select id from people where name ilike 'ANN'"],
    "No function matches": ["select datediff(born, seen) as d from people", "select id from people where age <=> null"],
    "there is no table user": ["select * from user"],
    "current_date": ["select id from people where born < current_date"],
    "`filter`": ["select count(*) filter (where age > 10) as n from people"],
    "operator coalesce": ["select coalesce(sum(qty), 0.5) as c from orders where id > 100"],
    "answer case": ["select case when ok then 1 else 0 end as c from people"],
    "array extract": ["select tags[1] as t from people"],
    "a member of a column": ["select place.zip from people order by place.zip", "select id from people where place.city = 'Oslo'"],
    "a cast to": [
        "select cast(name as int) as i from people where id = 5",
        "select cast(seen as date) as d from people",
        "select cast('2026-1-1' as date) as d",
        "select id from people where seen > timestamp '2026-01-01 00:00:00'",
    ],
    "between a whole number and double": ["select id from people where age between 9007199254740993 and 1e16"],
    "a comparison of": [
        "select id from people where seen = '2026-01-01 24:00:00'",
        "select id from people where score < 1e400",
        f"select id from people where balance > 0.{'9' * 39}",
        "select id from people where age = 'x'",
        "select id from people where age = '30'",
        "select id from people where balance = '12.5'",
        "select id from people where born > '2000'",
        "select id from people where seen > '2026-01-01T00:00:00Z'",
        "select id from people where seen > born",
        "select id from people where ratio = 0.1",
        "select id from people where name = 5",
        "select id from people where tags = tags",
        "select id from people where raw = raw",
    ],
    "a condition that is no boolean": ["select id from people where age"],
    "order by with": ["select id from people order by tags", "select id, place from people order by 2", "select * from people order by 1"],
    "group by with": ["select count(*) as n from people group by tags", "select score, count(*) as n from people group by 1"],
    "distinct with": ["select distinct score from people", "select distinct tags from people", "select distinct * from people"],
    "set operation": ["select id from people union all select id from orders", "select age from people intersect select small from people"],
    "subquery": ["select max(n) as m from (select kind, count(*) as n from orders group by kind)", "select id from people where id in (select person from orders)"],
    "`with`": ["with old as (select id from people where age > 40) select count(*) as n from old"],
    "`using columns`": ["select id, amount from people join orders using (id)"],
    "natural inner join": ["select * from people natural join orders"],
    "answer window": ["select id, row_number() over (partition by kind order by id) as n from orders"],
    "the name of a computed column": ["select id + 1 from people", "select *, id * 2 from people", "select ID, * from people", "select ''"],
    "which has the name of another one": ["select -age as age from people order by age"],
    "grouping sets": ["select kind, count(*) as n from orders group by rollup (kind)"],
    "table function": ["select * from range(3)"],
    "a computed limit": ["select id from people limit 1 + 1"],
}  # fmt: skip
"""Part of the reason → statements that `--engine auto` gives to Spark."""

HIVE = {
    "select tag from people lateral view explode(tags) t as tag where id = 1": ['{"tag":"a"}', '{"tag":"b"}'],
    "select date_format(seen, 'yyyy-MM') as m, nvl(name, '-') as n from people where id = 2": ['{"m":"2026-01","n":"-"}'],
    """select get_json_object('{"a": {"b": 7}}', '$.a.b') as b, "it's" as t""": ['{"b":"7","t":"it\'s"}'],
    "select id from people where name = 'O''Brien' and name rlike 'B'": ['{"id":4}'],
    "select id from order": ['{"id":1}'],
    "select tags[1] as t, substr(name, 0, 2) as s, round(2.675e0, 2) as r from people where id = 1": ['{"t":"b","s":"An","r":2.68}'],
    "select avg(amount) as a from orders": ['{"a":1.138889}'],
}
"""Statements of Hive's dialect, and their rows."""

FEW = 10
"""Statements of EXACT that are always tried."""

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("app_on_one_spark")]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """The tables after a run."""
    for name, rows in TABLES.items():
        folder = tmp_path / "w" / name / "incremental" / "increment_2026010100"
        folder.mkdir(parents=True)
        pyarrow.parquet.write_table(rows, folder / "part.parquet")
    config = tmp_path / "compactor.yaml"
    tables = "".join(f"  {name}: {{key: [id], order_by: [seq], format: parquet}}\n" for name in TABLES)
    config.write_text(f"warehouse: {tmp_path}/w\ncatalog: {{database: school}}\ntables:\n{tables}")
    with App.open(config) as opened:
        assert [report.error for report in opened.run()] == [None] * len(TABLES)
        yield opened


def differences(app: App, texts: list[str]) -> list[str]:
    """What the engines show otherwise. DuckDB must run each statement without asking Spark."""
    found, local = [], LocalSql(app)
    for text in texts:
        try:
            duck, spark = local.rows(text, only_exact=True), app.sql(text, engine="spark")
        except CompactorError as error:
            found.append(f"{text}\n  {error}")
            continue
        shown = [(rows.columns, [*rows] if re.search(r"order by [^()]*$", text) else sorted(rows)) for rows in (duck, spark)]
        if shown[0] != shown[1]:
            found.append(f"{text}\n  DuckDB {shown[0]}\n  Spark  {shown[1]}")
    return found


@pytest.mark.slow
def test_auto_answers_as_spark_does(app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few statements on both engines; every statement that differs goes to Spark, and a line says why."""
    texts = EXACT.strip().splitlines()
    assert differences(app, [text.strip() for text in texts[:: len(texts) // FEW]]) == []
    for reason, listed in SPARK.items():
        for text in listed:
            with monkeypatch.context() as patch:
                patch.setattr(App, "_spark_sql", lambda *_: Rows(["spark"]))
                caplog.clear()
                assert app.sql(text).columns == ["spark"], text
            assert [record.message.startswith("runs on Spark: ") and reason in record.message for record in caplog.records] == [True], caplog.text
    assert {text: [*app.sql(text)] for text in HIVE} == HIVE
    with pytest.raises(Refused, match="DIVIDE_BY_ZERO"):
        [*app.sql("select 1/0 as a")]


@pytest.mark.slow
def test_every_statement_answers_the_same(app: App) -> None:
    """The whole list on both engines."""
    assert "\n".join(differences(app, [text.strip() for text in EXACT.strip().splitlines()])) == ""
