"""Hostile texts in place of a query, which try to read, write or run something forbidden.

Weft must refuse each text before anything runs. Placeholders reveal an escape: no output may contain the content of the
file ``@READ@``, no file may appear at the path ``@WRITE@``, and no output may contain the environment variable
``WEFT_CANARY``. The texts come from experiments with Spark and with parsers.
"""

from __future__ import annotations

from typing import Final

READ: Final = "@READ@"
WRITE: Final = "@WRITE@"

HOSTILE: Final[dict[str, str]] = {
    # --- commands of the machine
    "transform": "SELECT TRANSFORM(k) USING 'touch @WRITE@' AS (x STRING) FROM msgs",
    "transform in parentheses": "SELECT * FROM (SELECT TRANSFORM(k) USING 'touch @WRITE@' FROM msgs) AS s",
    "transform in EXISTS": "SELECT k FROM msgs WHERE EXISTS (SELECT TRANSFORM(k) USING 'touch @WRITE@' FROM msgs)",
    "transform in IN": "SELECT k FROM msgs WHERE k IN (SELECT TRANSFORM(k) USING 'touch @WRITE@' AS (k) FROM msgs)",
    "map using": "FROM msgs MAP k USING 'touch @WRITE@' AS k",
    "reduce using": "FROM msgs REDUCE k USING 'touch @WRITE@' AS k",
    "bang": "!touch @WRITE@",
    "bang ls": "!ls",
    "dfs": "dfs -ls /",
    # --- the virtual machine
    "reflect": "SELECT reflect('java.lang.Runtime', 'getRuntime') FROM msgs",
    "reflect in WHERE": "SELECT k FROM msgs WHERE reflect('java.lang.System', 'getenv', 'WEFT_CANARY') = 'x'",
    "java_method": "SELECT java_method('java.lang.System', 'getenv', 'WEFT_CANARY') AS e FROM msgs",
    "try_reflect": "SELECT try_reflect('java.lang.System', 'getenv', 'WEFT_CANARY') AS e FROM msgs",
    "reflect in capitals": "SELECT ReFlEcT('java.lang.System', 'getenv', 'WEFT_CANARY') AS e FROM msgs",
    "reflect in back quotes": "SELECT `reflect`('java.lang.System', 'getenv', 'WEFT_CANARY') AS e FROM msgs",
    "reflect by IDENTIFIER": "SELECT IDENTIFIER('refl' || 'ect')('java.lang.System', 'getenv', 'WEFT_CANARY') FROM msgs",  # noqa: E501
    "reflect of a database": "SELECT system.builtin.reflect('java.lang.System', 'getenv', 'WEFT_CANARY') AS e FROM msgs",  # noqa: E501
    "reflect in a subquery": "SELECT k FROM msgs WHERE EXISTS (SELECT reflect('java.lang.System', 'exit', 1) FROM msgs)",  # noqa: E501
    "reflect in ON": "SELECT a.k FROM msgs AS a JOIN msgs AS b ON reflect('java.lang.System', 'getenv', 'A') = a.x",
    # --- files as tables
    "text file": "SELECT * FROM text.`@READ@`",
    "csv file": "SELECT * FROM csv.`@READ@`",
    "json file": "SELECT * FROM JSON.`@READ@`",
    "binary file": "SELECT * FROM binaryFile.`@READ@`",
    "parquet file": "SELECT * FROM parquet.`@READ@`",
    "delta table by path": "SELECT * FROM delta.`/`",
    "orc file": "SELECT * FROM orc.`@READ@`",
    "class name": "SELECT * FROM `org.apache.spark.sql.execution.datasources.text.TextFileFormat`.`@READ@`",
    "path alone": "SELECT * FROM `@READ@`",
    "string as a table": "SELECT * FROM '@READ@'",
    "file in a subquery": "SELECT k FROM msgs WHERE EXISTS (SELECT 1 FROM text.`@READ@`)",
    "file in IN": "SELECT k FROM msgs WHERE x IN (SELECT value FROM text.`@READ@`)",
    "file in a join": "SELECT a.k FROM msgs AS a, text.`@READ@` AS b",
    "identifier as a table": "SELECT * FROM IDENTIFIER('text.`@READ@`')",
    "identifier with a mark": "SELECT * FROM IDENTIFIER(:t)",
    "read_files": "SELECT * FROM read_files('@READ@')",
    "table function": "SELECT * FROM range(1000000000)",
    "explode": "SELECT explode(sequence(1, 1000000)) FROM msgs",
    "lateral view": "SELECT k FROM msgs LATERAL VIEW explode(sequence(1, 1000000000)) v AS c",
    "table function beside a table": "SELECT k FROM msgs LATERAL VIEW json_tuple(x, 'a') v AS c",
    "changes by path": "SELECT * FROM table_changes_by_path('/', 0)",
    "time travel": "SELECT * FROM msgs VERSION AS OF 0",
    "time travel at": "SELECT * FROM `msgs@v0`",
    "another schema": "SELECT * FROM default.msgs",
    "another catalog": "SELECT * FROM spark_catalog.default.msgs",
    # --- settings, secrets, the session
    "variable": "SELECT ${env:WEFT_CANARY} FROM msgs",
    "setting": "SET spark.sql.runSQLOnFiles=true",
    "all settings": "SET -v",
    "reset": "RESET",
    "show tables": "SHOW TABLES",
    "list files": "LIST FILES",
    "describe history": "DESCRIBE HISTORY delta.`/`",
    "explain": "EXPLAIN SELECT * FROM msgs",
    "input file name": "SELECT input_file_name() AS f FROM msgs",
    "metadata column": "SELECT _metadata.file_path FROM msgs",
    "current user": "SELECT current_user() AS u FROM msgs",
    "session user": "SELECT session_user() AS u FROM msgs",
    "current catalog": "SELECT current_catalog() AS u FROM msgs",
    "version": "SELECT version() AS v FROM msgs",
    # --- writes
    "insert": "INSERT INTO msgs SELECT * FROM msgs",
    "insert after WITH": "WITH s AS (SELECT * FROM msgs) INSERT INTO msgs SELECT * FROM s",
    "insert after FROM": "FROM msgs INSERT INTO msgs SELECT *",
    "insert into a directory": "INSERT OVERWRITE DIRECTORY '@WRITE@' USING csv SELECT * FROM msgs",
    "update": "UPDATE msgs SET k = 1",
    "delete": "DELETE FROM msgs",
    "merge": "MERGE INTO msgs USING msgs AS s ON msgs.k = s.k WHEN MATCHED THEN DELETE",
    "drop": "DROP TABLE msgs",
    "truncate": "TRUNCATE TABLE msgs",
    "create table": "CREATE TABLE t USING csv LOCATION '@WRITE@' AS SELECT * FROM msgs",
    "create view": "CREATE TEMPORARY VIEW v USING text OPTIONS (path '@READ@')",
    "create jdbc view": "CREATE TEMPORARY VIEW v USING jdbc OPTIONS (url 'jdbc:derby:;databaseName=@WRITE@;create=true')",  # noqa: E501
    "create function": "CREATE TEMPORARY FUNCTION f AS 'java.lang.Runtime'",
    "add jar": "ADD JAR '@WRITE@'",
    "add file": "ADD FILE '@READ@'",
    "cache": "CACHE TABLE t AS SELECT * FROM msgs",
    "clear cache": "CLEAR CACHE",
    "vacuum": "VACUUM msgs RETAIN 0 HOURS",
    "refresh": "REFRESH '/'",
    "load data": "LOAD DATA INPATH '@READ@' INTO TABLE msgs",
    "copy": "COPY INTO msgs FROM '@READ@' FILEFORMAT = CSV",
    "execute immediate": "EXECUTE IMMEDIATE 'SELECT 1'",
    "script": "BEGIN SELECT 1; END",
    "declare": "DECLARE v INT DEFAULT 1",
    "call": "CALL system.procedure()",
    "use": "USE default",
    "kill": "KILL 1",
    # --- several statements, comments that are none
    "two statements": "SELECT k FROM msgs; DROP TABLE msgs",
    "hidden second": "SELECT k FROM msgs /* ; */ ; DROP TABLE msgs -- x",
    "nothing": "",
    "only a comment": "-- SELECT k FROM msgs",
    "table statement": "TABLE msgs",
    "hint": "SELECT /*+ BROADCAST(msgs) */ k FROM msgs",
    # --- bombs
    "repeat": "SELECT repeat(x, 1000000000) AS b FROM msgs",
    "space": "SELECT space(1000000000) AS b FROM msgs",
    "lpad": "SELECT lpad(x, 1000000000, 'x') AS b FROM msgs",
    "sequence": "SELECT sequence(1, 1000000000) AS b FROM msgs",
    "array_repeat": "SELECT array_repeat(k, 1000000000) AS b FROM msgs",
    "recursion": "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT a FROM r",
    "deep nesting": "SELECT k FROM msgs WHERE " + "(" * 5_000 + "k = 1" + ")" * 5_000,
    "deep negation": "SELECT k FROM msgs WHERE " + "NOT " * 20_000 + "k = 1",
    "long text": "SELECT k FROM msgs WHERE x = '" + "a" * 200_000 + "'",
    # --- what looks harmless
    "anonymous function": "SELECT f(k) AS c FROM msgs",
    "lambda": "SELECT transform(array(k), x -> x + 1) AS c FROM msgs",
    "xpath": "SELECT xpath(x, '//a') AS c FROM msgs",
    "from_json": "SELECT from_json(x, 'a INT', map('mode', 'FAILFAST')) AS c FROM msgs",
    "python function": "SELECT python_udf(k) AS c FROM msgs",
    "assertion": "SELECT assert_true(k = 1) AS c FROM msgs",
    "raise_error": "SELECT k FROM msgs WHERE raise_error('@READ@') IS NULL",
    "secret": "SELECT secret('a', 'b') AS c FROM msgs",
    "http": "SELECT http_request('GET', 'http://127.0.0.1/') AS c FROM msgs",
    "ai_query": "SELECT ai_query('m', x) AS c FROM msgs",
    "null byte": "SELECT k FROM msgs\x00; DROP TABLE msgs",
}


def planted(text: str, read: str, write: str) -> str:
    """Return the text with the paths of its placeholders."""
    return text.replace(READ, read).replace(WRITE, write)
