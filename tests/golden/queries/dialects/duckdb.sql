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
