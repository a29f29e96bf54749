"""The embedded metastore's tables in Derby."""

from __future__ import annotations

from typing import Any

_TEXTS = ("VIEW_EXPANDED_TEXT", "VIEW_ORIGINAL_TEXT")


def widen_view_texts(jvm: Any, url: str) -> None:
    """Let a metastore in Derby hold views of any length.

    Hive's schema for Derby has LONG VARCHAR, which ends at 32,700 characters: the view of a table of 300 columns is longer. (PostgreSQL's and MySQL's
    have no such limit.) Expects that the metastore has made its tables. `url`: its JDBC URL.
    """
    account = jvm.java.util.Properties()
    account.setProperty("user", "APP")
    connection = jvm.org.apache.derby.jdbc.EmbeddedDriver().connect(url, account)
    # one transaction: a process that is killed in the middle leaves the tables as they were
    connection.setAutoCommit(False)
    try:
        statement = connection.createStatement()
        for column in _TEXTS:
            if _type(statement, column) == "LONG VARCHAR":
                statement.execute(f"ALTER TABLE TBLS ADD COLUMN NEW_{column} CLOB")
                statement.execute(f"UPDATE TBLS SET NEW_{column} = CAST({column} AS CLOB)")
                statement.execute(f"ALTER TABLE TBLS DROP COLUMN {column}")
                statement.execute(f"RENAME COLUMN TBLS.NEW_{column} TO {column}")
        connection.commit()
    finally:
        # Derby does not close a connection with an open transaction; after the commit this does nothing
        connection.rollback()
        connection.close()


def _type(statement: Any, column: str) -> str:
    answer = statement.executeQuery(
        "SELECT CAST(c.COLUMNDATATYPE AS VARCHAR(100)) FROM SYS.SYSCOLUMNS c JOIN SYS.SYSTABLES t ON c.REFERENCEID = t.TABLEID "
        f"WHERE t.TABLENAME = 'TBLS' AND c.COLUMNNAME = '{column}'"
    )
    return str(answer.getString(1)) if answer.next() else ""
