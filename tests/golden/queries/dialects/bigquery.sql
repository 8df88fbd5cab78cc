-- backquotes, texts in double quotes, SAFE_CAST
SELECT SAFE_CAST(name AS DATE) AS n FROM `t` WHERE name = "it's" AND ts < TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 7 DAY)

-- the order of arguments
SELECT DATE_TRUNC(day, MONTH) AS m, TIMESTAMP_TRUNC(ts, ISOWEEK) AS w, DATE_DIFF(day, DATE '2026-01-01', DAY) AS d FROM t

-- division
SELECT id / 2 AS half, COUNTIF(id > 3) AS n, IF(id > 1, 'a', 'b') AS s FROM t GROUP BY ALL

-- a number with a point is a floating-point number
SELECT id * 1.5 AS a, price > 2 AS b, id / 2.5 AS c FROM t

-- refused: SAFE_DIVIDE, the start of a week, an element of an array
SELECT SAFE_DIVIDE(id, 2) AS a,
  TIMESTAMP_TRUNC(ts, WEEK) AS w, tags[OFFSET(0)] AS t FROM t

-- refused: TRIM and GREATEST
SELECT TRIM(name) AS a, GREATEST(id, 3) AS b FROM t

-- refused: a text that may be a number in base 16, and an average of decimals
SELECT SAFE_CAST(name AS INT64) AS n, AVG(price) AS a FROM t GROUP BY ALL

-- a whole number has 64 bits
SELECT CAST(id AS INT) AS n FROM t
