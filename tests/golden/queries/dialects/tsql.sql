-- brackets, TOP, GETDATE, DATEADD, IIF
SELECT TOP 5 [id] AS [My Id], IIF(id > 1, 1, 0) AS f FROM t WHERE ts < DATEADD(day, -3, GETDATE())

-- DATETRUNC, DATEDIFF in days, a cast that truncates
SELECT DATETRUNC(month, ts) AS m, DATEDIFF(day, day, ts) AS d, CAST(price AS INT) AS p FROM t

-- refused: comparisons of texts
SELECT id FROM t WHERE name = 'open' AND name LIKE 'a%'
  AND name IN ('a', 'b')

-- refused: a division of whole numbers, and LEN
SELECT id / 2 AS half, LEN(name) AS n FROM t

-- refused: groups of texts
SELECT name, COUNT(*) AS n FROM t GROUP BY name

-- refused: a sum of texts, a number in a text, a window over texts, the least text
SELECT name + '!' AS a, CAST(name AS INT) AS b, COUNT(DISTINCT name) AS c, ROW_NUMBER() OVER (PARTITION BY name ORDER BY id) AS d,
  MIN(name) AS e FROM t

-- refused: the first percent, and a hint
SELECT TOP 5 PERCENT id FROM t WITH (NOLOCK)

-- refused: a number of hours
SELECT id FROM t WHERE DATEDIFF(hour, ts, GETDATE()) > 3

-- DOUBLE PRECISION
SELECT CAST(id AS DOUBLE PRECISION) / 3 AS a FROM t

-- refused: types whose length depends on how they are written, and a recursion
WITH u AS (SELECT id FROM t UNION ALL SELECT id + 1 FROM u)
SELECT CAST(id AS FLOAT) AS a, CAST(CAST(id AS VARCHAR) AS VARCHAR) AS b FROM u
