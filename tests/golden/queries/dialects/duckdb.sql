-- division, an interval and QUALIFY
SELECT id, id / 2 AS half FROM t WHERE ts < now() - INTERVAL 4 WEEK QUALIFY row_number() OVER (PARTITION BY name ORDER BY id) = 1

-- the order of NULL
SELECT id, price FROM t ORDER BY price DESC

-- functions
SELECT ifnull(name, '') AS n, date_diff('day', day, ts) AS d, date_trunc('week', ts) AS w, avg(id) AS a FROM t GROUP BY ALL

-- refused: a division by zero
SELECT id / id AS one FROM t

-- refused: a division without a remainder
SELECT id // 2 AS half FROM t

-- refused: a join without a counterpart
SELECT t.id FROM t POSITIONAL JOIN t AS u

-- refused: an order by what is not selected
SELECT id FROM t ORDER BY price -- the dear ones last

-- refused: a number of hours
SELECT date_diff('hour', ts, now()) AS h FROM t

-- refused: a backslash in a pattern
SELECT id FROM t WHERE name LIKE 'a\%'

-- a comma in FROM, COUNT_IF of no row, blanks at the ends
SELECT trim(a.name, ' ') AS n, count_if(b.id > 3) AS k FROM t a, t b WHERE a.id = b.id GROUP BY ALL

-- refused: what has a fraction in one case, and an average of decimals
SELECT (CASE WHEN id > 1 THEN 1 ELSE 1.5 END)::int AS a, coalesce(id, 1.5)::int AS b, avg(price) OVER () AS c FROM t

-- refused: values that the dialects write differently, and other blanks at the ends
SELECT rate || '' AS a, ts || '' AS b, (day + INTERVAL 1 DAY)::text AS c, trim(name) AS d FROM t

-- refused: fewer digits of seconds
SELECT ts::timestamp(0) AS a FROM t
