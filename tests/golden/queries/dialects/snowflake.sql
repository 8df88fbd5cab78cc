-- IFF, DATEADD, QUALIFY
SELECT IFF(id > 1, 'a', 'b') AS s FROM t WHERE ts < DATEADD(day, -3, GETDATE())
QUALIFY ROW_NUMBER() OVER (PARTITION BY name ORDER BY id) = 1

-- functions
SELECT NVL(name, '') AS n, CHARINDEX('x', name) AS p, DATEDIFF(day, day, ts) AS d, DATE_TRUNC('MONTH', ts) AS m FROM t

-- refused: the type of a division, and the start of a week
SELECT id / 2 AS half, DATE_TRUNC('WEEK', ts) AS w FROM t

-- refused: a path into a variant
SELECT doc:a::int AS a FROM t

-- refused: the old sign of an outer join
SELECT t.id FROM t, t AS u WHERE t.id = u.id(+)

-- refused: a number of hours
SELECT id FROM t WHERE DATEDIFF(hour, ts, CURRENT_TIMESTAMP()) > 3

-- whole numbers have 64 bits or more, and REAL has 64
SELECT CAST(id AS INT) AS a, CAST(id AS REAL) AS b FROM t

-- refused: a recursion without a word for it
WITH t AS (SELECT id FROM t UNION ALL SELECT id + 1 FROM t) SELECT id FROM t
